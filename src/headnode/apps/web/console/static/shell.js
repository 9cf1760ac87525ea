// The shell of a job: a terminal of xterm.js at one end, the conversation with the head at the other.
import { Terminal } from "./vendor/xterm-6.0.0/xterm.mjs";
import { FitAddon } from "./vendor/addon-fit-0.11.0/addon-fit.mjs";

const place = document.getElementById("terminal");
const said = document.getElementById("said");
const keys = document.getElementById("keys");
const MAX_UNREAD = 8 * 1024 * 1024; // bytes of output that are not drawn yet; what comes then is left out
const MAX_AHEAD = 32 * 1024; // bytes of input that the head has not taken yet
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g; // they would turn what follows around
const decoder = new TextDecoder();
const bytesOf = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
const encode = (bytes) => btoa(String.fromCharCode(...bytes));

// The policy of the page lets style elements with its nonce in, and no style attributes: xterm.js makes both.
const createElement = document.createElement.bind(document);
document.createElement = (name, options) => {
  const made = createElement(name, options);
  if (name.toLowerCase() === "style") made.nonce = place.dataset.nonce;
  return made;
};
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function set(name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

function colours() {
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
  const ansi = names.map((name, number) => [name, token(number ? `ansi-${number}` : "quiet")]);
  const bright = ansi.map(([name, value]) => [`bright${name[0].toUpperCase()}${name.slice(1)}`, value]);
  const own = { background: token("surface"), foreground: token("text"), cursor: token("text"), selectionBackground: token("accent-wash") };
  return { ...Object.fromEntries([...ansi, ...bright]), ...own };
}

const terminal = new Terminal({
  fontFamily: getComputedStyle(place).fontFamily, fontSize: 13, scrollback: 5000, screenReaderMode: true, theme: colours(),
  linkHandler: { activate: () => {} }, // output of others leads nowhere
});
const fit = new FitAddon();
let socket = null;
let unread = 0;
let leftOut = false;
let input = []; // bytes that wait until the head has taken what was sent
let ahead = 0;

const send = (frame) => { if (socket && socket.readyState === 1) socket.send(JSON.stringify(frame)); };

function type(bytes) {
  input.push(...bytes);
  sendInput();
}

function sendInput() {
  while (input.length && ahead < MAX_AHEAD) {
    const part = input.slice(0, MAX_AHEAD - ahead);
    input = input.slice(part.length);
    ahead += part.length;
    send({ in: encode(part) });
  }
}

function draw(bytes) {
  if (unread > MAX_UNREAD) { leftOut = true; return; }
  unread += bytes.length;
  terminal.write(decoder.decode(bytes, { stream: true }).replace(BIDI, "\ufffd"), () => { unread -= bytes.length; });
  if (leftOut) { leftOut = false; terminal.write("\x1b[m\r\n[output was left out: it came faster than it is drawn]\r\n"); }
}

function hear(event) {
  const frame = JSON.parse(event.data);
  if (frame.out) draw(bytesOf(frame.out));
  if (frame.err) draw(bytesOf(frame.err));
  if (frame.consumed) { ahead -= frame.consumed; sendInput(); }
  if (frame.waits) said.textContent = `The job is ${frame.waits.state}: ${frame.waits.reason || "it waits"}`;
  if (frame.node) { said.textContent = `On ${frame.node}.`; keys.hidden = false; terminal.focus({ preventScroll: true }); }
  if (frame.notice) said.textContent = frame.notice;
  if (frame.problem && frame.problem.detail) said.textContent = frame.problem.detail;
  if (frame.exit !== undefined) said.textContent = frame.problem || `The shell has ended with exit code ${frame.exit}.`;
}

function open() {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(`${scheme}//${location.host}${place.dataset.path}`);
  socket.onopen = () => send({ rows: terminal.rows, columns: terminal.cols, kind: "xterm-256color", csrf: place.dataset.csrf });
  socket.onmessage = hear;
  socket.onclose = () => { keys.hidden = true; terminal.options.disableStdin = true; said.textContent += " Load the page again for another shell."; };
}

function leave() {
  terminal.blur();
  document.getElementById("leave").focus();
}

terminal.loadAddon(fit);
terminal.open(place);
fit.fit();
terminal.onData((text) => type(new TextEncoder().encode(text)));
terminal.onBinary((text) => type(Uint8Array.from(text, (char) => char.charCodeAt(0))));
terminal.onResize(({ rows, cols }) => send({ window: [rows, cols] }));
terminal.attachCustomKeyEventHandler((event) => {
  if (!(event.code === "KeyL" && event.ctrlKey && event.shiftKey)) return true;
  if (event.type === "keydown") { event.preventDefault(); leave(); }
  return false;
});
new ResizeObserver(() => fit.fit()).observe(place);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { terminal.options.theme = colours(); });
keys.addEventListener("click", (event) => {
  if (event.target.dataset.key) { type([Number(event.target.dataset.key)]); terminal.focus(); }
});
document.getElementById("leave").addEventListener("click", leave);
open();
