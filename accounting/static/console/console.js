// Keeps pages current without moving what the reader is at: polls pause in hidden tabs, open details stay open.
"use strict";

const STALE_S = 10;
const LOST_S = 60;
let answeredAt = Date.now();
let lost = "";

const $ = (id) => document.getElementById(id);

// -- Polling

document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden || choosing()) event.preventDefault();
});

document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful) {
    answeredAt = Date.now();
    lost = "";
  } else {
    lost = event.detail.xhr && event.detail.xhr.status ? said("refused", event.detail.xhr.status) : said("silent");
  }
  freshness();
});

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) answeredAt = Math.max(answeredAt, Date.now() - 2000);
});

/** Whether a swap would take something out of the reader's hands: a list that is open, text that is selected. */
function choosing() {
  const live = $("live");
  const selection = document.getSelection();
  const selected = selection && !selection.isCollapsed && live.contains(selection.anchorNode);
  const field = document.activeElement;
  return selected || (field && live.contains(field) && /^(SELECT|INPUT|TEXTAREA)$/.test(field.tagName));
}

let opened = new Set();
let scrolled = [];

document.addEventListener("htmx:beforeSwap", () => {
  opened = new Set([...document.querySelectorAll("#live details[open]")].map((one) => one.id));
  scrolled = [...document.querySelectorAll("#live .scroll")].map((one) => one.scrollLeft);
});

document.addEventListener("htmx:afterSwap", () => {
  for (const id of opened) if (id && $(id)) $(id).open = true;
  document.querySelectorAll("#live .scroll").forEach((one, n) => { one.scrollLeft = scrolled[n] || 0; });
  $("fresh-revision").textContent = `${said("revision")} ${grouped($("live").dataset.revision)}`;
  ages();
});

// -- How current the page is

function freshness() {
  if (!$("live").hasAttribute("hx-get")) { $("fresh-age").textContent = said("still"); return; }
  const age = Math.round((Date.now() - answeredAt) / 1000);
  const state = age >= LOST_S ? "bad" : age >= STALE_S ? "warn" : "ok";
  $("fresh").dataset.state = state;
  $("fresh-age").textContent = `${age < 3 ? said("live") : said("ago", amount(age, 0))}${state !== "ok" && lost ? `, ${lost}` : ""}`;
}

function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function ages() {
  for (const one of document.querySelectorAll("#live time")) one.textContent = ago((Date.now() - Date.parse(one.dateTime)) / 1000);
}

function ago(seconds) {
  const s = Math.abs(seconds);
  const text = s < 90 ? amount(s, 0) : s < 5400 ? amount(s / 60, 1) : s < 172800 ? amount(s / 3600, 2) : amount(s / 86400, 3);
  return said(seconds < 0 ? "in" : "ago", text);
}

// A number of seconds, minutes, hours or days, in the page's language.
function amount(number, unit) {
  return `${Math.round(number)} ${said("units").split(" ")[unit]}`;
}

// A text in the page's language: the frame carries those that scripts show.
function said(name, amount = "") {
  return $("fresh").dataset[name].replace("{}", amount);
}

setInterval(() => {
  if (document.hidden) return;
  freshness();
  ages();
}, 1000);

// -- Theme and keys

$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* for this page only, then */ }
});

const PLACES = { c: "/", p: "/pending", o: "/pods", s: "/simulate", n: "/nodes", d: "/devices", q: "/quotas", f: "/findings", a: "/activity" };
let going = false;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (going && PLACES[event.key]) location.href = PLACES[event.key];
  going = event.key === "g";
  if (event.key === "/") { event.preventDefault(); $("search").focus(); }
  if (event.key === "?") $("keys").showModal();
  if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
});

// The next or previous row of the page's tables: its first link gets the focus, so that Enter opens it.
function step(by) {
  const links = [...document.querySelectorAll("#live tbody tr")].map((row) => row.querySelector("a[href]")).filter((one) => one && one.offsetParent);
  const at = links.findIndex((one) => one.closest("tr").contains(document.activeElement));
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))];
  if (next) next.focus();
}

ages();
