// Fetches what has changed, while the page is in sight, as often as the scheduler says, and lets ages go on.
"use strict";
const main = document.querySelector("main");
const lost = document.querySelector("#lost");
const pause = document.querySelector("#pause");
let seen = main.dataset.version;
let fetched = Date.now();
let paused = false;
let next = Date.now() + 1000;

function say(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h`;
}

function age() {
  const since = (Date.now() - fetched) / 1000;
  for (const one of main.querySelectorAll("time[data-age]")) {
    const heard = Number(one.closest("[data-heard]")?.dataset.heard || 0);
    const words = say(Number(one.dataset.age) + heard + since);
    one.textContent = "for" in one.dataset ? words : `${words} ago`;
  }
}

// What somebody scrolled, or has the keyboard's focus on, stays where it was.
function place() {
  const boxes = [...main.querySelectorAll(".drawing, .wide")];
  const active = document.activeElement;
  return {
    scrolled: boxes.map((box) => box.scrollLeft),
    link: main.contains(active) ? active.getAttribute("href") : null,
    box: boxes.indexOf(active),
  };
}

function putBack({ scrolled, link, box }) {
  const boxes = [...main.querySelectorAll(".drawing, .wide")];
  boxes.forEach((one, number) => { one.scrollLeft = scrolled[number] || 0; });
  if (link !== null) main.querySelector(`a[href="${CSS.escape(link)}"]`)?.focus({ preventScroll: true });
  if (box >= 0) boxes[box]?.focus({ preventScroll: true });
}

async function ask() {
  let wait = 1;
  try {
    const words = new URLSearchParams(location.search);
    words.set("seen", seen);
    const answer = await fetch(`${main.dataset.source}?${words}`, { signal: AbortSignal.timeout?.(10000) });
    if (answer.status === 200) {
      const before = place();
      main.innerHTML = await answer.text();
      seen = answer.headers.get("X-Daskevo-Version");
      fetched = Date.now();
      putBack(before);
    }
    lost.hidden = answer.ok;
    wait = Number(answer.headers.get("X-Daskevo-Next")) || 1;
  } catch {
    lost.hidden = false;
  }
  next = Date.now() + wait * 1000;
}

// Once a second: somebody who comes back to the page sees at once what has changed.
async function look() {
  if (!document.hidden && !paused) {
    if (Date.now() >= next - 50) await ask();
    age();
  }
  setTimeout(look, 1000);
}

document.querySelector("#still").hidden = true;
pause.hidden = false;
pause.setAttribute("aria-pressed", "false");
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
});
age();
setTimeout(look, 1000);
