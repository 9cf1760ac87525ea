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
