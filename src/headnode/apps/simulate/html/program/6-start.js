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
