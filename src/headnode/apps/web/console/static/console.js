// What pages do beyond forms and links: they stay fresh, tell times in the reader's zone, and know a few keys.
// Every page works without this file.
"use strict";

const NOT_SOONER = 1500; // milliseconds between two fetches of a page
const AT_LEAST_EVERY = 30000; // milliseconds: what changes without an event, such as elapsed times
const PATIENCE = 20000; // milliseconds until an answer counts as lost
const FOLLOW_EVERY = [1000, 5000]; // milliseconds between two looks at output that grows, and that is silent
const MAX_OUTPUT = 1000000; // characters of output that a page keeps
const content = () => document.getElementById("content");
const live = document.getElementById("live");
const lost = document.getElementById("lost");
const still = () => document.querySelector("[data-still]") !== null;
let paused = false;
let seen = Date.now();

// ---- the page is fetched again when the gateway says that something has changed

let stream = null;
let lostAt = 0;
let tries = 0;
let wanted = 0; // the timer of the next fetch
let took = 0; // milliseconds of the last fetch: slow pages are fetched less often
let fetching = false;

function editing() {
  const at = document.activeElement;
  return still() || (at !== null && content().contains(at) && at.matches("input:not([type=checkbox]), textarea, select"));
}

function refreshSoon() {
  if (wanted || paused || document.hidden) return;
  const wait = Math.max(100, Math.max(NOT_SOONER, 10 * took) - (Date.now() - seen));
  wanted = setTimeout(() => { wanted = 0; refresh(false); }, wait);
}

async function refresh(asked) {
  if (!asked && (paused || document.hidden || editing() || fetching)) return;
  if (!window.Idiomorph) return;
  const address = location.pathname + location.search;
  fetching = true;
  const began = Date.now();
  try {
    const answer = await fetch(address, {
      headers: { accept: "text/html" }, signal: AbortSignal.timeout(PATIENCE),
    });
    if (new URL(answer.url).pathname === "/login") return location.reload();
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!answer.ok || !fresh.getElementById("content") || (!asked && (paused || editing()))) return;
    if (address !== location.pathname + location.search) return; // the reader has gone on
    morph(fresh);
    seen = Date.now();
    took = seen - began;
    found();
  } catch {
    lose();
  } finally {
    fetching = false;
    age();
  }
}

function morph(fresh) {
  const first = document.body.dataset.fresh !== "yes"; // what differs at first is not news
  document.body.dataset.fresh = "yes";
  document.title = fresh.title;
  window.Idiomorph.morph(content(), fresh.getElementById("content"), {
    morphStyle: "outerHTML",
    callbacks: {
      beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
      beforeNodeMorphed: (old, other) => {
        if (old.nodeType === 3 && old.data !== other.data && !first) mark(old.parentElement);
        return !(old.nodeType === 1 && (old.matches("input, select, textarea") || own(old, other)));
      },
    },
  });
  settle();
}

// Output that this page follows, and drawings that its scripts have made, are not those of the server.
function own(old, other) {
  if (old.matches(".plot") && other.dataset && other.dataset.plot) {
    old.dataset.plot = other.dataset.plot;
    return true;
  }
  return old.dataset.from !== undefined && other.dataset !== undefined && old.dataset.follow === other.dataset.follow;
}

function mark(element) {
  const cell = element && element.closest("td, dd, li, p, a.chip");
  if (!cell || element.closest("time, .output")) return;
  cell.classList.remove("changed");
  void cell.offsetWidth; // so that the animation begins again
  cell.classList.add("changed");
}

function listen() {
  if (stream || paused || document.hidden || still() || !window.EventSource) return;
  stream = new EventSource("/news" + (document.body.dataset.news || ""));
  stream.onopen = () => { tries = 0; refreshSoon(); };
  stream.onmessage = refreshSoon;
  stream.onerror = () => { lose(); again(); };
  stream.addEventListener("end", () => { lose(); again(); });
}

function hang() {
  if (stream) stream.close();
  stream = null;
}

function again() {
  hang();
  tries += 1;
  setTimeout(listen, Math.min(30000, 1000 * 2 ** Math.min(tries - 1, 5)) * (0.75 + Math.random() / 2));
}

function lose() {
  if (lostAt || !lost) return;
  lostAt = seen;
  const at = new Date(seen).toLocaleTimeString(undefined, { hourCycle: "h23" });
  lost.textContent = `The gateway does not answer. This page is as it was at ${at}; it updates itself when the gateway answers again.`;
  lost.hidden = false;
  age();
}

function found() {
  if (!lostAt || !stream || stream.readyState !== 1) return;
  lostAt = 0;
  lost.hidden = true;
  lost.textContent = "";
}

function age() {
  if (!live) return;
  const seconds = Math.round((Date.now() - seen) / 1000);
  live.dataset.lost = lostAt ? "yes" : "";
  live.firstChild.data = paused ? "Paused " : lostAt ? "Not live " : "Live ";
  live.querySelector(".age").textContent = (paused || lostAt) && seconds > 2 ? seconds + " s ago" : "";
}

// ---- times in the reader's zone, and how far they are from now

const SPANS = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];

function span(seconds) {
  for (const [unit, name, smaller, second] of SPANS) {
    if (seconds < unit) continue;
    const rest = Math.floor((seconds % unit) / smaller);
    return `${Math.floor(seconds / unit)} ${name}` + (rest ? ` ${rest} ${second}` : "");
  }
  return `${Math.floor(seconds)} s`;
}

function words(time) {
  const at = new Date(time.dateTime);
  time.title = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
  if (time.hasAttribute("data-clock")) {
    const today = at.toDateString() === new Date().toDateString();
    const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    if (time.dataset.clock === "exact") clock.second = "2-digit";
    const text = at.toLocaleString(undefined, today ? clock : { month: "short", day: "2-digit", ...clock });
    if (time.textContent !== text) time.textContent = text;
  } else if (!paused && !lostAt) {
    const away = (at - Date.now()) / 1000;
    const text = Math.abs(away) < 1 ? "now" : away > 0 ? `in ${span(away)}` : `${span(-away)} ago`;
    if (time.textContent !== text) time.textContent = text;
  }
}

function tellTimes() {
  document.querySelectorAll("time[datetime]").forEach(words);
  const zone = document.getElementById("zone");
  if (zone) zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone || zone.textContent;
}

// ---- output that grows is followed: only what is new is fetched

let following = 0;
let silent = FOLLOW_EVERY[0];

async function follow() {
  clearTimeout(following);
  const box = document.querySelector("[data-follow]");
  if (!box || !box.dataset.from) return;
  try {
    if (!paused && !document.hidden) await more(box);
  } catch {
    silent = FOLLOW_EVERY[1];
  }
  if (box.dataset.from) following = setTimeout(follow, silent);
}

async function more(box) {
  const answer = await fetch(`${box.dataset.follow}&from=${box.dataset.from}&style=${box.dataset.style || ""}`);
  if (!answer.ok) { silent = FOLLOW_EVERY[1]; return; }
  const part = await answer.json();
  if (part.from !== Number(box.dataset.from)) box.textContent = ""; // the file has been made anew
  const end = stuck(box);
  box.insertAdjacentHTML("beforeend", part.html);
  box.dataset.from = part.over ? "" : part.next;
  box.dataset.style = part.style;
  silent = part.html ? FOLLOW_EVERY[0] : Math.min(FOLLOW_EVERY[1], silent * 1.5);
  let size = box.textContent.length;
  while (size > MAX_OUTPUT && box.firstChild !== box.lastChild) {
    size -= box.firstChild.textContent.length;
    box.firstChild.remove();
  }
  if (end) box.scrollTop = box.scrollHeight;
}

const stuck = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 40;

function settle() {
  tellTimes();
  document.querySelectorAll("[data-follow]").forEach((box) => {
    if (box.dataset.shown) return;
    box.dataset.shown = "yes";
    if (box.dataset.from !== undefined) box.scrollTop = box.scrollHeight;
    follow();
  });
  document.dispatchEvent(new CustomEvent("console:settled"));
}

// ---- keys, menus, files that are dropped

document.addEventListener("htmx:afterSwap", tellTimes); // the forecast of a new job
document.addEventListener("visibilitychange", () => {
  if (document.hidden) hang();
  else { listen(); follow(); }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.target.matches("input, textarea, select")) {
    event.preventDefault();
    document.querySelector("form.search input").focus();
  }
  if (event.key === "Escape") {
    document.querySelectorAll("details.act[open], details.menu[open]").forEach((each) => {
      each.open = false;
      if (each.contains(document.activeElement)) each.querySelector("summary").focus();
    });
  }
});
document.addEventListener("click", (event) => {
  document.querySelectorAll("details.act[open]").forEach((each) => {
    if (!each.contains(event.target)) each.open = false;
  });
});
// A job file may be dropped anywhere on its page: its text goes into the field, as if it were pasted.
document.addEventListener("dragover", (event) => {
  if (document.querySelector("[data-drop]") && event.dataTransfer.types.includes("Files")) event.preventDefault();
});
document.addEventListener("drop", async (event) => {
  const field = document.querySelector("[data-drop]");
  const file = event.dataTransfer.files[0];
  if (!field || !file) return;
  event.preventDefault();
  field.value = await file.text();
  field.focus();
});
document.addEventListener("change", (event) => {
  const form = event.target.form;
  const said = form && form.querySelector("[data-chosen]");
  const all = event.target.closest("[data-all]");
  if (all) {
    const name = all.dataset.all;
    all.form.querySelectorAll(`input[name=${name}]`).forEach((box) => { box.checked = all.checked; });
  }
  if (said) {
    const boxes = [...form.querySelectorAll("input[name=job]")];
    said.textContent = `${boxes.filter((box) => box.checked).length} of ${boxes.length} selected`;
  }
});

if (live) {
  live.hidden = still();
  live.addEventListener("click", () => {
    paused = !paused;
    live.setAttribute("aria-pressed", String(paused));
    if (paused) hang();
    else { listen(); follow(); }
    age();
  });
  setInterval(() => { age(); tellTimes(); }, 1000);
  setInterval(() => refresh(false), AT_LEAST_EVERY);
}
document.body.classList.add("has-scripts");
settle();
listen();
