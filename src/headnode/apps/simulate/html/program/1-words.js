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
