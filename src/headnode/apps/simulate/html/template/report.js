"use strict";
// What the page knows, and how it says times, as the program that wrote it does.
// Times are seconds on the log's clock.

const known = JSON.parse(document.getElementById("known").textContent);
const CONFIG = {
  responsive: true, displaylogo: false,
  showSendToCloud: false, plotlyServerURL: "", // nobody's jobs leave this page
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
};
const DAY = 86400;
const at = (id) => document.getElementById(id);
const text = (value) => String(value).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const counted = (count) => count.toLocaleString("en-US");

function span(seconds) {
  if (seconds > 0 && seconds < 10 && seconds % 1) return `${+seconds.toPrecision(2)} s`;
  const parts = [];
  let whole = Math.floor(seconds);
  for (const [size, unit] of [[DAY, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
    const count = Math.floor(whole / size);
    whole %= size;
    if (count) parts.push(`${count} ${unit}`);
    else if (parts.length) break;
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

// Of a log that is over within an hour, the seconds count.
function moment(seconds) {
  if (known.zero === null) {
    const rest = seconds - Math.floor(seconds / DAY) * DAY; // also of what was before the log
    const clock = [rest / 3600, (rest % 3600) / 60, ...(known.brief ? [rest % 60] : [])];
    return `day ${counted(Math.floor(seconds / DAY))}, ${clock.map((part) => String(Math.floor(part)).padStart(2, "0")).join(":")}`;
  }
  const date = new Date((known.zero + seconds) * 1000).toUTCString(); // Mon, 03 Sep 1996 14:00:31 GMT
  const [, week, day, rest, time, second] = /(\w+), 0?(\d+) (.*) (\d+:\d+)(:\d+)/.exec(date);
  return `${week} ${day} ${rest}, ${time}${known.brief ? second : ""}`;
}

const onAxis = (seconds) => (known.zero === null ? seconds / DAY : (known.zero + seconds) * 1000);
const offAxis = (place) => {
  if (known.zero === null) return Number(place) * DAY;
  const iso = typeof place === "string" ? place.replace(" ", "T") : place;
  return (typeof iso === "string" ? Date.parse(iso.length > 10 ? `${iso}Z` : iso) : iso) / 1000 - known.zero;
};
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
// Every job, out of its packing.

async function unpacked({ type, data }) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const content = await new Response(stream).arrayBuffer();
  if (type === "Text") return new TextDecoder().decode(content).split("\n");
  return new { Int32: Int32Array, Float64: Float64Array }[type](content);
}

async function unpackedColumns(columns) {
  const found = {};
  for (const [name, column] of Object.entries(columns)) found[name] = typeof column === "string" ? column : await unpacked(column);
  return found;
}
// The chart of processors: jobs as bars, in a period that the reader chooses.

const nodes = known.nodes; // name and first processor of each, in the order of processors

function on(first, count) {
  if (!nodes) return "";
  const [from, to] = [first, first + count - 1].map((processor) => nodes[nodeOf(processor)][0]);
  return `<br>here on ${text(from)}${from === to ? "" : ` to ${text(to)}`}`;
}

function nodeOf(processor) {
  let [low, high] = [0, nodes.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (nodes[middle][1] <= processor) low = middle; else high = middle;
  }
  return low;
}

const WAITS = [ // up to so many seconds, in this colour
  [0, "no wait", "#5f8fd6"], [600, "up to 10 min", "#37a6a0"], [3600, "up to 1 h", "#76b35a"],
  [21600, "up to 6 h", "#d9ab2c"], [DAY, "up to a day", "#e07b39"], [Infinity, "over a day", "#d2455f"],
];
const MAX_BARS = 8000;
const STEPS = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, DAY, 2 * DAY, 7 * DAY]; // between marks, in seconds

class Gantt {
  constructor(jobs, policies) {
    this.jobs = jobs;
    this.policies = policies;
    for (const policy of policies) {
      policy.firstStrip = new Int32Array(policy.stripCounts.length);
      policy.stripCounts.reduce((sum, count, job) => { policy.firstStrip[job] = sum; return sum + count; }, 0);
    }
    this.policy = policies[known.gantt.policy];
    this.begin = known.gantt.begin;
    this.length = known.gantt.length;
    this.shown = null; // the place of a job that stands out
    at("gantt-policy").addEventListener("change", (event) => { this.policy = policies[event.target.value]; this.draw(); });
    at("gantt-length").addEventListener("change", (event) => this.resize(Number(event.target.value)));
    at("gantt-begin").addEventListener("change", (event) => this.move(this.read(event.target)));
    at("gantt-back").addEventListener("click", () => this.move(this.begin - this.length));
    at("gantt-on").addEventListener("click", () => this.move(this.begin + this.length));
    this.drawn = this.draw().then(() => at("gantt-chart").on("plotly_relayout", (change) => this.zoomed(change)));
  }

  read(input) {
    const place = known.zero === null ? Number(input.value) : input.value;
    const seconds = offAxis(place);
    return input.value === "" || Number.isNaN(seconds) ? this.begin : seconds;
  }

  move(begin) {
    this.begin = Math.max(known.first, Math.min(begin, known.last - this.length));
    return this.draw();
  }

  resize(length) {
    const middle = this.begin + this.length / 2;
    this.length = length;
    return this.move(middle - length / 2);
  }

  zoomed(change) {
    const range = change["xaxis.range"] || [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (change["xaxis.autorange"]) return this.move(known.gantt.begin);
    if (range[0] === undefined) return undefined;
    const [begin, end] = range.map(offAxis);
    if (Math.abs(begin - this.begin) < 1 && Math.abs(end - this.begin - this.length) < 1) return undefined;
    this.begin = begin;
    this.length = end - begin;
    return this.draw();
  }

  show(job) {
    const start = this.jobs.submits[job] + this.policy.waits[job];
    this.shown = job;
    this.length = Math.max(DAY / 24, this.jobs.runTimes[job] * 2);
    at("machine").scrollIntoView();
    return this.move(start - this.length / 4);
  }

  // Jobs that run in the period; if there are too many, those that take most of the picture.
  visible() {
    const { submits, runTimes, processors } = this.jobs;
    const { waits } = this.policy;
    const end = this.begin + this.length;
    let found = [];
    for (let job = 0; job < submits.length; job++) {
      const start = submits[job] + waits[job];
      if (start < end && start + runTimes[job] > this.begin) found.push(job);
    }
    const all = found.length;
    if (found.reduce((bars, job) => bars + this.policy.stripCounts[job], 0) > MAX_BARS) {
      const area = (job) => Math.min(runTimes[job], this.length) * processors[job];
      let room = MAX_BARS;
      found = found.sort((one, other) => area(other) - area(one)).filter((job) => (room -= this.policy.stripCounts[job]) >= 0);
    }
    return { found, all };
  }

  draw() {
    const { found, all } = this.visible();
    this.say(found, all);
    this.fill();
    const traces = WAITS.map(([, name, colour]) => ({
      type: "bar", orientation: "h", name, base: [], x: [], y: [], width: [], text: [], customdata: [], textposition: "inside",
      insidetextanchor: "middle", textangle: 0, hovertemplate: "%{customdata}<extra></extra>", showlegend: true,
      marker: { color: colour, line: { width: [], color: [] } },
    }));
    for (const job of found) this.add(traces, job, found.length < 400);
    return Plotly.react("gantt-chart", traces, this.layout(), CONFIG);
  }

  add(traces, job, named) {
    const { policy, jobs } = this;
    const wait = policy.waits[job];
    const start = jobs.submits[job] + wait;
    const trace = traces[WAITS.findIndex(([limit]) => wait <= limit)];
    const about = this.about(job, start, wait);
    const from = policy.firstStrip[job];
    for (let strip = from; strip < from + policy.stripCounts[job]; strip++) {
      const [first, count] = [policy.strips[2 * strip], policy.strips[2 * strip + 1]];
      trace.base.push(onAxis(start));
      trace.x.push(known.zero === null ? jobs.runTimes[job] / DAY : jobs.runTimes[job] * 1000);
      trace.y.push(first + 0.5 + count / 2);
      trace.width.push(count);
      trace.text.push(named ? text(jobs.numbers[job]) : "");
      trace.customdata.push(about + on(first, count));
      trace.marker.line.width.push(job === this.shown ? 4 : 0.6);
      trace.marker.line.color.push(job === this.shown ? "#ff2fd0" : "rgba(255,255,255,0.75)");
    }
  }

  about(job, start, wait) {
    const { jobs } = this;
    return [
      `<b>Job ${text(jobs.numbers[job])}</b>, ${counted(jobs.processors[job])} processors`,
      `waits ${span(wait)} from ${moment(jobs.submits[job])}`,
      `runs ${span(jobs.runTimes[job])} from ${moment(start)}`,
      `estimate ${span(jobs.estimates[job])}`,
    ].join("<br>");
  }

  layout() {
    const layout = structuredClone(known.gantt.layout);
    layout.xaxis.range = [onAxis(this.begin), onAxis(this.begin + this.length)];
    if (known.zero === null) Object.assign(layout.xaxis, this.marks());
    else layout.xaxis.range = layout.xaxis.range.map((ms) => new Date(ms).toISOString().slice(0, 23));
    return layout;
  }

  // Days have hours, not tenths; where there are dates, the axis knows that itself.
  marks() {
    const step = STEPS.find((seconds) => this.length / seconds <= 8) || Math.ceil(this.length / 8 / DAY) * DAY;
    const first = Math.ceil(this.begin / step);
    const seconds = Array.from({ length: Math.floor((this.begin + this.length) / step) - first + 1 }, (_, mark) => (first + mark) * step);
    const said = (second, mark) => {
      const [day, time] = moment(second).split(", ");
      return step % DAY === 0 ? day : mark === 0 || Number(time.replaceAll(":", "")) === 0 ? `${time}<br>${day}` : time;
    };
    return { tickvals: seconds.map(onAxis), ticktext: seconds.map(said) };
  }

  say(found, all) {
    const shown = found.length;
    const what = shown < all
      ? `${counted(all)} jobs run in this period: too many to see. The ${counted(shown)} that take most room are shown; choose a shorter period to see all.`
      : { 0: "No job runs in this period.", 1: "One job runs in this period." }[all]
        || `All ${counted(all)} jobs that run in this period are shown.`;
    const chosen = !found.includes(this.shown) ? "" : ` Job ${this.jobs.numbers[this.shown]} is outlined.`;
    at("gantt-said").textContent = `${this.policy.name}, ${moment(this.begin)} to ${moment(this.begin + this.length)}. ${what}${chosen}`;
  }

  fill() {
    const begin = at("gantt-begin");
    at("gantt-policy").value = this.policies.indexOf(this.policy);
    begin.value = known.zero === null ? +(this.begin / DAY).toFixed(3)
      : new Date((known.zero + this.begin) * 1000).toISOString().slice(0, known.brief ? 19 : 16);
    const length = at("gantt-length");
    length.value = [...length.options].some((option) => Number(option.value) === this.length) ? this.length : "";
    at("gantt-back").disabled = this.begin <= known.first;
    at("gantt-on").disabled = this.begin + this.length >= known.last;
  }
}
// The table of all jobs: to search, to sort, to save.

const PAGE = 20;

class Chooser {
  constructor(jobs, policies, gantt) {
    this.jobs = jobs;
    this.policies = policies;
    this.gantt = gantt;
    this.page = 0;
    this.columns = this.allColumns();
    this.sorted = this.columns.at(-1); // what changes most comes first; if nothing is compared, who waits longest
    this.down = true;
    for (const id of ["job-number", "job-size", "job-moved"]) at(id)?.addEventListener("input", () => { this.page = 0; this.choose(); });
    at("job-policy")?.addEventListener("input", () => { this.page = 0; this.choose(); });
    at("jobs-back").addEventListener("click", () => { this.page--; this.draw(); });
    at("jobs-on").addEventListener("click", () => { this.page++; this.draw(); });
    at("jobs-file").addEventListener("click", () => this.save());
    at("jobs-head").append(...this.columns.map((column) => this.head(column)));
    this.choose();
  }

  allColumns() {
    const { numbers, submits, processors, runTimes } = this.jobs;
    const waits = this.policies.map((policy) => ({ title: `Wait, ${policy.name}`, value: (job) => policy.waits[job], said: span }));
    const change = {
      get title() { return `Start, ${other().name}`; }, value: (job) => this.change(job), said: changed, bySize: true,
    };
    const other = () => this.policies[at("job-policy").value];
    return [
      { title: "Job", value: (job) => Number(numbers[job]) },
      { title: "Submitted", value: (job) => submits[job], said: (seconds) => moment(seconds).replace(/^[A-Z][a-z]+ /, "") },
      { title: "Processors", value: (job) => processors[job], said: counted },
      { title: "Run time", value: (job) => runTimes[job], said: span },
      ...waits, ...(this.policies.length > 1 ? [change] : []),
    ];
  }

  // By how much a job starts later, below 0 if earlier, under the chosen policy than under the first.
  change(job) {
    return this.policies[at("job-policy").value].waits[job] - this.policies[0].waits[job];
  }

  head(column) {
    const head = document.createElement("th");
    const button = document.createElement("button");
    head.scope = "col";
    button.type = "button";
    button.textContent = column.title;
    button.addEventListener("click", () => {
      this.down = this.sorted === column ? !this.down : true;
      this.sorted = column;
      this.page = 0;
      this.sort();
    });
    head.append(button);
    column.head = head;
    return head;
  }

  choose() {
    const number = at("job-number").value.trim();
    const size = Number(at("job-size").value) || 0;
    const moved = at("job-moved")?.value || "any";
    const sign = { any: null, sooner: -1, later: 1 }[moved];
    this.chosen = [...this.jobs.submits.keys()].filter((job) =>
      this.jobs.numbers[job].startsWith(number) && this.jobs.processors[job] >= size
      && (sign === null || Math.sign(this.change(job)) === sign));
    this.sort();
  }

  sort() {
    const { value, bySize } = this.sorted;
    const key = bySize ? (job) => Math.abs(value(job)) : value;
    const sign = this.down ? -1 : 1;
    this.chosen.sort((one, other) => sign * (key(one) - key(other)) || one - other);
    for (const column of this.columns) {
      column.head.ariaSort = column === this.sorted ? (this.down ? "descending" : "ascending") : "none";
      column.head.firstChild.textContent = column.title + (column === this.sorted ? (this.down ? " ▼" : " ▲") : "");
    }
    this.draw();
  }

  draw() {
    const pages = Math.max(1, Math.ceil(this.chosen.length / PAGE));
    const from = this.page * PAGE;
    const rows = this.chosen.slice(from, from + PAGE).map((job) => this.row(job));
    at("jobs-body").replaceChildren(...rows);
    at("jobs-back").disabled = this.page === 0;
    at("jobs-on").disabled = this.page >= pages - 1;
    at("jobs-said").textContent = this.chosen.length
      ? `${counted(from + 1)} to ${counted(from + rows.length)} of ${counted(this.chosen.length)} jobs` : "No such job.";
  }

  row(job) {
    const row = document.createElement("tr");
    const cells = this.columns.slice(1).map(({ value, said, bySize }) => {
      const cell = document.createElement("td");
      cell.textContent = said(value(job), job);
      if (bySize && value(job)) cell.className = value(job) < 0 ? "sooner" : "later";
      return cell;
    });
    row.append(this.name(job), ...cells);
    return row;
  }

  name(job) {
    const [cell, show] = [document.createElement("th"), document.createElement("button")];
    cell.scope = "row";
    show.type = "button";
    show.textContent = this.jobs.numbers[job];
    show.title = "Show it in the chart of processors";
    show.disabled = !this.gantt;
    show.addEventListener("click", () => this.gantt.show(job));
    cell.append(show);
    return cell;
  }

  // The same as --starts, with the start under every policy; all jobs, whatever is chosen.
  save() {
    const quoted = (name) => (/[",\n]/.test(name) ? `"${name.replace(/"/g, '""')}"` : name);
    const { numbers, submits, runTimes, estimates, processors } = this.jobs;
    const lines = [["job", "submit", "run_time", "estimate", "processors", ...this.policies.map(({ name }) => quoted(`start_${name}`))].join(",")];
    for (let job = 0; job < submits.length; job++) {
      const starts = this.policies.map(({ waits }) => submits[job] + waits[job]);
      lines.push([numbers[job], submits[job], runTimes[job], estimates[job], processors[job], ...starts].join(","));
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
    link.download = "starts.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
}

const changed = (seconds) => (seconds ? `${span(Math.abs(seconds))} ${seconds < 0 ? "earlier" : "later"}` : "same");
// Once all jobs are unpacked, they can be seen.

async function allJobs() {
  const jobs = await unpackedColumns(known.jobs);
  const policies = [];
  for (const policy of known.policies) policies.push(await unpackedColumns(policy));
  const gantt = known.gantt && new Gantt(jobs, policies); // none where jobs change their sizes
  await gantt?.drawn;
  new Chooser(jobs, policies, gantt);
  document.body.dataset.ready = "yes";
}

if (typeof DecompressionStream === "undefined") {
  for (const id of known.gantt ? ["gantt-said", "jobs-said"] : ["jobs-said"]) at(id).textContent = "This browser is too old to unpack the jobs; any of 2023 or later can.";
} else {
  allJobs();
}
