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
const MOST_BARS = 8000;
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
    if (found.reduce((bars, job) => bars + this.policy.stripCounts[job], 0) > MOST_BARS) {
      const area = (job) => Math.min(runTimes[job], this.length) * processors[job];
      let room = MOST_BARS;
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
