// What pages do beyond links and forms. Each page works without it, with times in UTC.
"use strict";

(() => {
  const EVERY_MS = 5000;
  const SLOW_TICKS = 6; // for what brokers have to search
  const kept = window.sessionStorage;
  let paused = kept.getItem("paused") === "yes";
  let answered = true;
  let leader = 0;
  let ticks = 0;

  const two = (n) => String(n).padStart(2, "0");

  // --- times: the reader's zone, UTC on hover ---

  function local(ms) {
    const at = new Date(ms);
    const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  }

  function span(ms) {
    const s = Math.max(0, Math.round(ms / 1000));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    return s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${Math.floor(s / 86400)} d`;
  }

  // The server's clock as this page saw it: ages do not depend on the reader's clock.
  let skew = 0;

  function tellTimes(root) {
    for (const one of root.querySelectorAll("time[data-ms]")) {
      one.textContent = local(Number(one.dataset.ms));
    }
    const fresh = root.querySelector(".fresh[data-now]");
    if (fresh) skew = Number(fresh.dataset.now) - Date.now();
  }

  function tellAges() {
    const now = Date.now() + skew;
    for (const one of document.querySelectorAll("time[data-at]")) {
      one.textContent = `${span(now - Number(one.dataset.at))} ago`;
    }
    for (const one of document.querySelectorAll(".fresh[data-age]")) {
      const age = now - Number(one.dataset.age);
      one.textContent = answered ? `as of ${span(age)} ago` : `no answer; figures are ${span(age)} old`;
      one.classList.toggle("stale", !answered);
    }
  }

  // --- live parts: the server sends them, or htmx asks for them at each tick ---

  const STREAM_SILENT_MS = 40000; // the server sends a beat every 15 s
  const RETRY_MS = 2000;
  const RETRY_MS_MAX = 60000;
  let stream = null;
  let openedAt = 0;
  let heardAt = 0; // 0: not yet
  let retryMs = RETRY_MS;
  let retryAt = 0;

  function isStreaming() {
    return stream !== null && Date.now() - heardAt < STREAM_SILENT_MS;
  }

  function hangUp() {
    if (stream) stream.close();
    stream = null;
  }

  function lost() { // until it is back, ticks ask
    hangUp();
    retryAt = Date.now() + retryMs * (0.5 + Math.random());
    retryMs = Math.min(2 * retryMs, RETRY_MS_MAX);
  }

  function listen() {
    const live = document.getElementById("live");
    if (stream || paused || document.hidden || !live || !live.dataset.live) return;
    if (!window.EventSource || Date.now() < retryAt) return;
    const opened = stream = new EventSource(live.dataset.live);
    const hear = (name, then) => opened.addEventListener(name, (event) => {
      if (stream !== opened) return;
      heardAt = Date.now();
      then(event.data);
    });
    openedAt = Date.now();
    heardAt = 0;
    hear("live", (data) => { retryMs = RETRY_MS; answered = true; show(data); });
    hear("beat", () => {});
    hear("failed", () => { answered = false; });
    hear("end", () => { answered = false; lost(); });
    opened.addEventListener("error", () => { if (stream === opened) lost(); });
  }

  function show(text) {
    const old = document.getElementById("live");
    const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("live");
    if (!old || !fresh || paused || busy()) return;
    old.replaceWith(fresh);
    if (window.htmx) window.htmx.process(fresh);
    renewed(fresh);
  }

  function tellPause() {
    for (const one of document.querySelectorAll("[data-pause]")) {
      one.textContent = paused ? "Go on" : "Pause";
      one.setAttribute("aria-pressed", String(paused));
    }
  }

  function pause() {
    paused = !paused;
    kept.setItem("paused", paused ? "yes" : "no");
    tellPause();
    if (paused) hangUp();
    else { tick(); listen(); }
  }

  function busy() { // the reader marks something, or types, in the live part
    const chosen = window.getSelection();
    const within = chosen && !chosen.isCollapsed && chosen.anchorNode;
    if (within && within.parentElement && within.parentElement.closest("#live")) return true;
    const at = document.activeElement;
    return Boolean(at && typing(at) && at.closest("#live"));
  }

  function tick() {
    if (paused || document.hidden || busy() || !document.getElementById("live")) return;
    listen();
    if (isStreaming()) return;
    if (stream && Date.now() - Math.max(openedAt, heardAt) > STREAM_SILENT_MS) lost();
    document.body.dispatchEvent(new Event("tick"));
    ticks += 1;
    if (ticks % SLOW_TICKS === 0) document.body.dispatchEvent(new Event("slow"));
  }

  // --- charts ---

  function draw(root) {
    if (typeof uPlot === "undefined") return;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    for (const place of root.querySelectorAll(".chart[data-points]")) {
      const points = JSON.parse(place.dataset.points);
      const last = points.length ? points[points.length - 1][0] : 0;
      if (last && last - points[0][0] < 300) points.unshift([last - 300, null, null, null]);
      const columns = [0, 1, 2, 3].map((i) => points.map((one) => one[i]));
      const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
      const line = (label, name) => ({ label, stroke: color(name), width: 1.5, points: { show: points.length < 4 }, value: (_, v) => (v === null || v === undefined ? "–" : v.toFixed(1)) });
      place.replaceChildren();
      new uPlot({
        width: Math.max(200, place.clientWidth - 16),
        height: 150,
        cursor: { y: false },
        scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
        axes: [axis, { ...axis, size: 52 }],
        series: [{ value: (_, v) => (v ? local(v * 1000) : "–") }, line("in/s", "--accent"), line("out/s", "--flight"), line("acked/s", "--delayed")],
      }, columns, place);
    }
  }

  // --- clicks ---

  async function copy(button) {
    if (!navigator.clipboard) { // only over HTTPS and on this machine
      window.getSelection().selectAllChildren(button.previousElementSibling);
      return;
    }
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  }

  document.addEventListener("click", (event) => {
    const at = event.target.closest("[data-copy], [data-pause]");
    if (!at) return;
    if (at.matches("[data-pause]")) pause();
    else copy(at);
  });

  document.addEventListener("change", (event) => {
    const all = event.target.closest("[data-choose-all]");
    if (!all) return;
    for (const one of all.closest("form").querySelectorAll("input[name='chosen']")) one.checked = all.checked;
  });

  // --- keys ---

  function typing(target) {
    return target.closest("input, textarea, select") !== null;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && typing(event.target)) event.target.blur();
    if (typing(event.target)) return;
    if (event.key === "/") {
      event.preventDefault();
      document.querySelector(".search input").select();
    } else if (event.key === "p") {
      pause();
    } else if (event.key === "g") {
      leader = Date.now();
    } else if (Date.now() - leader < 1500) {
      const there = document.querySelector(`.top nav a[data-key="${CSS.escape(event.key)}"]`);
      if (there) there.click();
      leader = 0;
    }
  });

  function renewed(live) {
    tellTimes(live);
    tellAges();
    tellPause();
    draw(live);
  }

  document.addEventListener("htmx:afterSwap", (event) => {
    answered = true;
    renewed(document.getElementById("live") || event.target);
  });
  for (const failed of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(failed, () => { answered = false; });
  }

  let resized = 0;
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => draw(document), 200);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(document));

  document.addEventListener("visibilitychange", () => { // a browser has few connections to a host
    if (document.hidden) hangUp();
    else { retryAt = 0; tick(); }
  });
  window.addEventListener("pagehide", hangUp);
  window.addEventListener("pageshow", listen);

  renewed(document);
  listen();
  setInterval(tellAges, 1000);
  setInterval(tick, EVERY_MS);
})();
