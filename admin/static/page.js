// What the pages gain where scripts run: times in the viewer's zone, and word
// of a replica that no longer answers. Without it they read the same, in UTC.
"use strict";

(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const two = (n) => String(n).padStart(2, "0");
  const dayOf = (t) => t.getFullYear() + "-" + two(t.getMonth() + 1) + "-" + two(t.getDate());
  const clockOf = (t) => two(t.getHours()) + ":" + two(t.getMinutes()) + ":" + two(t.getSeconds());

  // offsetOf writes how far the zone is from UTC at an instant: +01:00.
  const offsetOf = (t) => {
    const minutes = -t.getTimezoneOffset();
    const size = Math.abs(minutes);
    return (minutes < 0 ? "-" : "+") + two(Math.floor(size / 60)) + ":" + two(size % 60);
  };

  // localize turns what the server wrote in UTC into the viewer's zone. What was
  // turned has the mark data-utc.
  const localize = (root) => {
    const now = root.querySelector("time.clock[datetime]");
    const today = now && dayOf(new Date(now.dateTime));
    for (const time of root.querySelectorAll("time[datetime]:not([data-utc])")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      time.dataset.utc = time.title;
      const exact = dayOf(at) + " " + clockOf(at) + " " + offsetOf(at);
      const since = /^(since|until) /.exec(time.title);
      time.title = (since ? since[0] : "") + exact + " (" + time.title.replace(/^(since|until) /, "") + ")";
      if (time.classList.contains("clock")) {
        time.textContent = (dayOf(at) === today ? "" : dayOf(at) + " ") + clockOf(at);
      }
    }
    for (const e of root.querySelectorAll("[data-zone]")) e.textContent = zone;
    for (const e of root.querySelectorAll("[data-times]")) e.textContent = "All times are those of " + zone + ".";
    for (const input of root.querySelectorAll('input[type="datetime-local"]:not([data-utc])')) {
      input.dataset.utc = input.value;
      const at = new Date(input.value + "Z");
      if (input.value && !isNaN(at)) input.value = dayOf(at) + "T" + clockOf(at).replace(/:00$/, "");
    }
  };

  // Fields for instants are filled in by the viewer's clock, and sent in UTC.
  document.addEventListener("submit", (event) => {
    for (const input of event.target.querySelectorAll('input[type="datetime-local"]')) {
      const at = new Date(input.value);
      if (!input.value || isNaN(at)) continue;
      const sent = document.createElement("input");
      sent.type = "hidden";
      sent.name = input.name;
      sent.value = at.toISOString().slice(0, 19) + "Z";
      input.removeAttribute("name");
      event.target.append(sent);
    }
  });

  // A part that asks again must not go on showing the old without a word, nor be
  // emptied by an answer of another kind, such as the sign-in page.
  const offline = (hidden) => {
    for (const e of document.querySelectorAll(".offline")) e.hidden = hidden;
  };
  document.addEventListener("htmx:sendError", () => offline(false));
  document.addEventListener("htmx:responseError", () => offline(false));
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (!event.detail.xhr.responseText.includes('id="live"')) {
      event.detail.shouldSwap = false;
      if (event.detail.xhr.status < 400) location.reload();
    }
  });

  // Who goes by keyboard stays where they are when the part around them is new.
  let focused = null;
  const alike = (e) => [...document.querySelectorAll("#live " + e.tagName)].filter((o) => o.outerHTML.split(">")[0] === e.outerHTML.split(">")[0]);
  document.addEventListener("htmx:beforeSwap", () => {
    const e = document.activeElement;
    focused = e && e.closest("#live") ? { e, place: alike(e).indexOf(e) } : null;
  });
  document.addEventListener("htmx:afterSwap", () => {
    localize(document);
    if (!focused || document.contains(focused.e)) return;
    const again = alike(focused.e)[focused.place];
    if (again) again.focus({ preventScroll: true });
  });

  // What was folded open or away stays so when the part around it is new.
  let folded = new Map();
  document.addEventListener("htmx:beforeSwap", () => {
    folded = new Map([...document.querySelectorAll("#live details[data-key]")].map((e) => [e.dataset.key, e.open]));
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const e of document.querySelectorAll("#live details[data-key]")) {
      if (folded.has(e.dataset.key)) e.open = folded.get(e.dataset.key);
    }
  });

  localize(document);
})();
