// The charts that came with the page.

for (const [id, figure] of Object.entries(known.charts)) Plotly.newPlot(`${id}-chart`, figure.data, figure.layout, CONFIG);

const detail = at("detail");
if (detail) detail.addEventListener("change", () => {
  const chart = at("over-time-chart");
  const { x0, dx, y, customdata } = known.details[detail.value];
  // Not restyle: given new points, it takes dates for numbers.
  const data = chart.data.map((trace, row) => ({ ...trace, x0: x0[row], dx: dx[row], y: y[row], customdata: customdata[row] }));
  Plotly.react(chart, data, chart.layout, CONFIG);
});

addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  for (const chart of document.querySelectorAll(".chart")) if (chart.data) Plotly.relayout(chart, { width: 680 });
});
addEventListener("afterprint", () => {
  for (const chart of document.querySelectorAll(".chart")) if (chart.data) Plotly.relayout(chart, { width: null, autosize: true });
});
