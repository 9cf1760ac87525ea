// The plan: drag to zoom, the wheel with Ctrl or Shift, and keys.  Each step is an address; links do the same.
"use strict";

const FETCH_AFTER = 200; // milliseconds without a further step
const SHORTEST = 60; // seconds of a window
const plan = () => document.getElementById("plan");
let shown = null; // the window that the drawing is moved to, until the page of it is there
let fetchLater = 0;
let from = null; // where a drag began, as a part of the window

function drawn() {
  const { begin, end, labels } = plan().dataset;
  return { begin: Number(begin), end: Number(end), labels: Number(labels) };
}

function partAt(event) {
  const box = plan().querySelector(".chart").getBoundingClientRect();
  const left = box.left + box.width * drawn().labels;
  return Math.min(1, Math.max(0, (event.clientX - left) / (box.right - left)));
}

function go(begin, end) {
  if (end - begin < SHORTEST) end = begin + SHORTEST;
  shown = { begin, end };
  moveDrawing();
  clearTimeout(fetchLater);
  fetchLater = setTimeout(load, FETCH_AFTER);
}

function moveDrawing() {
  const { begin, end, labels } = drawn();
  const [, , width] = plan().querySelector(".chart").getAttribute("viewBox").split(" ").map(Number);
  const left = width * labels;
  const scale = (end - begin) / (shown.end - shown.begin);
  const x = left + (width - left) * (begin - shown.begin) / (shown.end - shown.begin) - left * scale;
  plan().querySelector(".moving").setAttribute("transform", `translate(${x.toFixed(2)} 0) scale(${scale.toFixed(5)} 1)`);
}

async function load() {
  const address = new URL(location.href);
  for (const name of ["at", "span"]) address.searchParams.delete(name);
  address.searchParams.set("from", Math.round(shown.begin));
  address.searchParams.set("to", Math.round(shown.end));
  history.pushState(null, "", address);
  shown = null;
  await refresh(true);
}

function zoom(factor, about = 0.5) {
  const now = shown || drawn();
  const span = now.end - now.begin;
  const middle = now.begin + span * about;
  go(middle - span * factor * about, middle + span * factor * (1 - about));
}

function move(by) {
  const now = shown || drawn();
  const span = now.end - now.begin;
  go(now.begin + span * by, now.end + span * by);
}

document.addEventListener("wheel", (event) => {
  if (!event.target.closest("#plan .chart") || !(event.ctrlKey || event.shiftKey || event.deltaX)) return;
  event.preventDefault();
  if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, partAt(event));
  else move(Math.sign(event.deltaX || event.deltaY) * 0.1);
}, { passive: false });

document.addEventListener("keydown", (event) => {
  if (event.target !== plan() || event.ctrlKey || event.metaKey || event.altKey) return;
  const steps = {
    ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
    0: () => { location.href = [...document.querySelectorAll(".head a")].find((link) => link.textContent === "Now").href; },
  };
  if (!(event.key in steps)) return;
  event.preventDefault();
  steps[event.key]();
});

function keepLabels() { // in a narrow window the drawing is wider than its place: the names stay in sight
  const svg = plan().querySelector(".chart");
  const scale = svg.viewBox.baseVal.width / svg.getBoundingClientRect().width;
  svg.querySelector(".labels").setAttribute("transform", `translate(${plan().scrollLeft * scale} 0)`);
}

function choose(first, last) {
  const svg = plan().querySelector(".chart");
  const [, , width] = svg.getAttribute("viewBox").split(" ").map(Number);
  const left = width * drawn().labels;
  const box = svg.querySelector(".chosen");
  box.setAttribute("x", left + (width - left) * Math.min(first, last));
  box.setAttribute("width", (width - left) * Math.abs(last - first));
}

document.addEventListener("pointerdown", (event) => {
  if (event.button === 0 && event.pointerType === "mouse" && event.target.closest("#plan .chart")) from = partAt(event);
});
document.addEventListener("pointermove", (event) => { if (from !== null) choose(from, partAt(event)); });
document.addEventListener("pointerup", (event) => {
  if (from === null) return;
  const [first, last] = [from, partAt(event)].sort((one, other) => one - other);
  from = null;
  choose(0, 0);
  if (last - first < 0.01) return; // a click
  const { begin, end } = drawn();
  document.addEventListener("click", (click) => click.preventDefault(), { capture: true, once: true });
  go(begin + (end - begin) * first, begin + (end - begin) * last);
});
document.addEventListener("dragstart", (event) => { if (event.target.closest("#plan")) event.preventDefault(); });
addEventListener("popstate", () => refresh(true));

{
  const now = plan().querySelector("line.now");
  if (now) plan().scrollLeft = now.getBoundingClientRect().left - plan().getBoundingClientRect().left - plan().clientWidth / 2;
  document.addEventListener("scroll", (event) => { if (event.target === plan()) keepLabels(); }, { capture: true });
  keepLabels();
}
