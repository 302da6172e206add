// Fetches what has changed, once a second while the page is in sight, and lets ages go on.
"use strict";
const main = document.querySelector("main");
const lost = document.querySelector("#lost");
const chosen = new URLSearchParams(location.search).get("study") || "";
let seen = main.dataset.version;
let fetched = Date.now();

function say(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return `${Math.floor(seconds / 3600)} h ago`;
}

function age() {
  const since = (Date.now() - fetched) / 1000;
  for (const one of main.querySelectorAll("time[data-age]")) one.textContent = say(Number(one.dataset.age) + since);
}

async function look() {
  if (!document.hidden) {
    try {
      const words = new URLSearchParams({ seen, study: chosen });
      const answer = await fetch(`${main.dataset.source}?${words}`, { signal: AbortSignal.timeout(10000) });
      if (answer.status === 200) {
        const scrolled = main.querySelector(".drawing")?.scrollLeft || 0;
        main.innerHTML = await answer.text();
        seen = answer.headers.get("X-Daskevo-Version");
        fetched = Date.now();
        const drawing = main.querySelector(".drawing");
        if (drawing) drawing.scrollLeft = scrolled;
      }
      lost.hidden = answer.ok;
    } catch {
      lost.hidden = false;
    }
    age();
  }
  setTimeout(look, 1000);
}

age();
setTimeout(look, 1000);
