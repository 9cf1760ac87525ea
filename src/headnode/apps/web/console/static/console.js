// What pages do beyond forms and links: they stay fresh, tell times in the reader's zone, and know a few keys.
// Every page works without this file.
"use strict";

const EVERY = 5000; // milliseconds between two looks at a page that is seen
const content = () => document.getElementById("content");
const live = document.getElementById("live");
let paused = false;
let seen = Date.now();

function editing() {
  const at = document.activeElement;
  if (document.querySelector("[data-still]")) return true;
  return at !== null && content().contains(at) && at.matches("input:not([type=checkbox]), textarea, select");
}

function refresh() {
  if (paused || document.hidden || editing() || !window.htmx) return;
  window.htmx.ajax("GET", location.pathname + location.search, {
    target: "#content", select: "#content", swap: "morph:outerHTML", source: "#content",
  });
}

function age() {
  const seconds = Math.round((Date.now() - seen) / 1000);
  live.firstChild.data = paused ? "Paused " : "Live ";
  live.querySelector(".age").textContent = seconds < 3 ? "" : seconds + " s ago";
}

function words(time) {
  const at = new Date(time.dateTime);
  time.title = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
  if (time.hasAttribute("data-clock")) {
    const today = at.toDateString() === new Date().toDateString();
    time.textContent = at.toLocaleString(undefined, today
      ? { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }
      : { month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  }
}

function settle() {
  document.querySelectorAll("time[datetime]").forEach(words);
  const zone = document.getElementById("zone");
  if (zone) zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone || zone.textContent;
  document.querySelectorAll("[data-follow]").forEach((box) => {
    if (box.dataset.left !== "yes") box.scrollTop = box.scrollHeight;
  });
}

if (window.Idiomorph) {
  Object.assign(window.Idiomorph.defaults.callbacks, {
    beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
    beforeNodeMorphed: (old) => !(old.nodeType === 1 && old.matches("input, select, textarea")),
  });
}

document.addEventListener("htmx:afterSwap", () => { seen = Date.now(); settle(); age(); });
document.addEventListener("scroll", (event) => {
  const box = event.target;
  if (box.dataset && "follow" in box.dataset) {
    box.dataset.left = box.scrollHeight - box.scrollTop - box.clientHeight > 40 ? "yes" : "";
  }
}, true);
document.addEventListener("visibilitychange", refresh);
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
  if (event.target.matches("[data-all]")) {
    event.target.form.querySelectorAll("input[name=job]").forEach((box) => { box.checked = event.target.checked; });
  }
});

if (live) {
  live.hidden = false;
  live.addEventListener("click", () => {
    paused = !paused;
    live.setAttribute("aria-pressed", String(paused));
    age();
    refresh();
  });
  setInterval(age, 1000);
}
settle();
setInterval(refresh, EVERY);
