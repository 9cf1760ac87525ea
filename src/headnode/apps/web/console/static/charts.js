// Charts: uPlot draws what a page gives as data; the same is beside it as a table.
"use strict";

const plots = new Map(); // the element -> the chart and the data that it shows
const HEIGHT = 190; // pixels
const WHOLE = [1, 2, 5].flatMap((step) => [0, 1, 2, 3, 4, 5, 6].map((power) => step * 10 ** power)).sort((a, b) => a - b);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const clock = (seconds, long) => new Date(seconds * 1000).toLocaleString(undefined, long
  ? { month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }
  : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

function axis(more) {
  return {
    stroke: colour("quiet"), font: "12px system-ui, sans-serif",
    grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1, size: 4 }, ...more,
  };
}

function timeLabels(chart, splits, index, space, step) {
  let day = "";
  return splits.map((at) => {
    const today = new Date(at * 1000).toDateString();
    const text = step >= 86400
      ? new Date(at * 1000).toLocaleDateString(undefined, { month: "short", day: "2-digit" })
      : clock(at, day !== "" && today !== day);
    day = today;
    return text;
  });
}

function line(series) {
  const stroke = colour(series.colour);
  return {
    label: series.label, stroke, width: 1.5, points: { show: false },
    fill: series.filled ? stroke + "38" : undefined, dash: series.dashed ? [5, 4] : undefined,
    paths: uPlot.paths.stepped({ align: 1 }),
    value: (chart, value) => (value === null ? "–" : Number(value.toFixed(1)).toLocaleString()),
  };
}

function nowLine(chart, at) {
  if (!at || at < chart.scales.x.min || at > chart.scales.x.max) return;
  const x = Math.round(chart.valToPos(at, "x", true));
  chart.ctx.save();
  chart.ctx.setLineDash([]);
  chart.ctx.strokeStyle = colour("accent");
  chart.ctx.lineWidth = 2 * devicePixelRatio;
  chart.ctx.beginPath();
  chart.ctx.moveTo(x, chart.bbox.top);
  chart.ctx.lineTo(x, chart.bbox.top + chart.bbox.height);
  chart.ctx.stroke();
  chart.ctx.restore();
}

function options(data, width) {
  const x = data.unit
    ? { label: data.unit, labelSize: 18, labelFont: "12px system-ui, sans-serif" }
    : { values: timeLabels, space: 70 };
  return {
    width, height: HEIGHT, padding: [10, 32, 0, 4],
    scales: {
      x: { time: !data.unit },
      y: { range: (chart, low, high) => [0, Math.max(1, data.top || 0, (high || 0) * 1.05)] },
    },
    axes: [axis({ size: 30, ...x }), axis({ size: 44, space: 34, ...(data.parts ? {} : { incrs: WHOLE }) })],
    series: [
      { label: data.unit || "Time", value: (chart, at) => (at === null ? "–" : data.unit ? `${at}` : clock(at, true)) },
      ...data.series.map(line),
    ],
    cursor: { drag: { x: false, y: false } },
    hooks: { draw: [(chart) => nowLine(chart, data.now)] },
  };
}

function drawAll() {
  for (const box of plots.keys()) {
    if (!box.isConnected) { plots.get(box).chart.destroy(); plots.delete(box); }
  }
  document.querySelectorAll(".plot[data-plot]").forEach((box) => draw(box));
}

function draw(box, anew) {
  const text = box.dataset.plot;
  const old = plots.get(box);
  const width = Math.max(200, box.clientWidth);
  if (old && old.text === text && !anew) {
    if (old.chart.width !== width) old.chart.setSize({ width, height: HEIGHT });
    return;
  }
  const data = JSON.parse(text);
  const values = [data.x, ...data.series.map((series) => series.values)];
  if (old) { old.chart.destroy(); box.textContent = ""; }
  plots.set(box, { text, chart: new uPlot(options(data, width), values, box) });
}

document.addEventListener("console:settled", drawAll);
addEventListener("resize", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  document.querySelectorAll(".plot[data-plot]").forEach((box) => draw(box, true));
});
drawAll();
