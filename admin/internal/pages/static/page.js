// Script of the pages: times in the viewer's zone or that of a job, live updates, and a warning when the replica does not answer.
// Without the script the pages show the same data in UTC.
"use strict";

(() => {
  // The viewer may choose UTC, in which the server writes all times, or the zone of the job that a
  // page is about. A browser may not know that zone.
  const chosen = document.documentElement.dataset;
  const utc = chosen.timesIn === "utc";
  const formatOf = (timeZone) => {
    try {
      return timeZone && new Intl.DateTimeFormat("en-US", { timeZone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" });
    } catch {
      return null;
    }
  };
  const ofJob = formatOf(chosen.jobZone);
  const zone = ofJob ? chosen.jobZone : Intl.DateTimeFormat().resolvedOptions().timeZone;

  // minutesOf returns the offset of the zone from UTC at a time.
  const minutesOf = (t) => {
    if (!ofJob) return -t.getTimezoneOffset();
    const p = Object.fromEntries(ofJob.formatToParts(t).map((part) => [part.type, Number(part.value)]));
    return Math.round((Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute, p.second) - t) / 60000);
  };
  // inZone returns a date whose fields in UTC are those of the zone at a time, and timeOf returns
  // that time.
  const inZone = (t) => new Date(t.getTime() + minutesOf(t) * 60000);
  const timeOf = (d) => {
    if (!ofJob) return new Date(d.getUTCFullYear(), d.getUTCMonth(), d.getUTCDate(), d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds());
    const near = new Date(d - minutesOf(d) * 60000);
    return new Date(d - minutesOf(near) * 60000);
  };
  const dayOf = (t) => inZone(t).toISOString().slice(0, 10);
  const clockOf = (t) => inZone(t).toISOString().slice(11, 19);
  const two = (n) => String(n).padStart(2, "0");
  const count = (n) => n.toLocaleString("en-US"); // as the server writes counts: 25,884

  // offsetOf returns the offset of the zone from UTC at a time: +01:00.
  const offsetOf = (t) => {
    const minutes = minutesOf(t);
    const size = Math.abs(minutes);
    return (minutes < 0 ? "-" : "+") + two(Math.floor(size / 60)) + ":" + two(size % 60);
  };

  // localize converts times from UTC to the zone of the page. Converted elements
  // have the attribute data-utc.
  const localize = (root) => {
    // Times that are in the zone of the page already are not shown twice.
    for (const e of root.querySelectorAll("[data-of-zone]")) e.hidden = e.dataset.ofZone === (utc ? "UTC" : zone);
    if (utc) return;
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
      } else if (time.dataset.short) { // above the columns of a grid, or in a list of hours
        const here = inZone(at);
        const midnight = here.getUTCHours() === 0 && here.getUTCMinutes() === 0;
        const day = here.toLocaleDateString("en", { timeZone: "UTC", month: "short", day: "numeric" });
        if (time.dataset.short === "minute") time.textContent = (dayOf(at) === today ? "" : day + " ") + clockOf(at).slice(0, 5);
        else time.textContent = midnight || time.dataset.short === "day" ? day : two(here.getUTCHours());
      }
    }
    for (const e of root.querySelectorAll("text[data-at]")) {
      const at = new Date(e.dataset.at);
      const clock = e.textContent.trim().split(":").length > 2 ? clockOf(at) : clockOf(at).slice(0, 5);
      e.textContent = "day" in e.dataset ? dayOf(at).slice(5) + " " + clock : clock;
    }
    // Sentences and tooltips contain times in their text.
    const local = (text) => text.replace(/(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)| (\d\d:\d\d:\d\d) UTC)/g, (all, day, iso, offset, plain) => {
      const at = new Date(day + "T" + (iso || plain) + (offset || "Z"));
      if (isNaN(at)) return all;
      return (dayOf(at) === today ? "" : dayOf(at) + " ") + clockOf(at);
    });
    for (const e of root.querySelectorAll("svg title:not([data-utc]), [data-says]:not([data-utc])")) {
      e.dataset.utc = "";
      e.textContent = local(e.textContent);
    }
    for (const e of root.querySelectorAll("[data-titled]:not([data-utc])")) {
      e.dataset.utc = "";
      e.title = local(e.title);
      e.setAttribute("aria-label", e.title);
    }
    // The last night in the zone, from 20:00 to 06:00.
    for (const link of root.querySelectorAll("a[data-night]")) {
      const to = new URL(link.href);
      const midnight = inZone(new Date(now ? now.dateTime : Date.now()));
      midnight.setUTCHours(0, 0, 0, 0);
      const begin = timeOf(new Date(midnight - 4 * 3600000));
      const end = timeOf(new Date(midnight.getTime() + 6 * 3600000));
      const text = (t) => t.toISOString().slice(0, 19) + "Z";
      if (to.searchParams.get("from") === text(begin)) continue;
      to.searchParams.set("from", text(begin));
      to.searchParams.set("until", text(end));
      link.href = to.pathname + to.search;
      const asked = new URLSearchParams(location.search);
      const here = ["from", "until"].every((name) => asked.get(name) && new Date(asked.get(name)) - new Date(to.searchParams.get(name)) === 0);
      link.toggleAttribute("aria-current", here);
      if (here) link.setAttribute("aria-current", "true");
    }
    for (const e of root.querySelectorAll("[data-zone]")) e.textContent = zone;
    for (const e of root.querySelectorAll("[data-times]")) e.textContent = "All times are in " + zone + ", unless another zone is shown.";
    for (const input of root.querySelectorAll('input[type="datetime-local"]:not([data-utc])')) {
      input.dataset.utc = input.value;
      const at = new Date(input.value + "Z");
      if (input.value && !isNaN(at)) input.value = dayOf(at) + "T" + clockOf(at).replace(/:00$/, "");
    }
  };

  // The current page is in sight in the navigation and in the tabs of a narrow window. So is the link
  // that has the focus, in charts too: browsers leave a link alone that is in sight in part.
  for (const e of document.querySelectorAll(".nav [aria-current], .tabs [aria-current]")) e.scrollIntoView({ block: "nearest", inline: "center" });
  document.addEventListener("focusin", (event) => {
    const frame = event.target.closest(".nav, .tabs, .timeline, .lanes, .grid");
    if (!frame) return;
    const wide = event.target !== frame && event.target.getBoundingClientRect().width > frame.clientWidth;
    event.target.scrollIntoView({ block: "nearest", inline: wide ? "start" : "nearest" });
  });

  // Time fields show the zone of the page and are sent in UTC.
  document.addEventListener("formdata", (event) => {
    if (utc) return;
    for (const input of event.target.querySelectorAll('input[type="datetime-local"]')) {
      const at = new Date(input.value + "Z");
      if (input.value && !isNaN(at)) event.formData.set(input.name, timeOf(at).toISOString().slice(0, 19) + "Z");
    }
  });

  // Durations and times that come nearer count once a second, by the server's clock. The server
  // writes the value of the moment of its answer.
  let ahead = 0; // of the server's clock, in ms
  const setClock = () => {
    const now = document.querySelector(".fresh time[datetime]");
    if (now) ahead = new Date(now.dateTime) - Date.now();
  };
  const span = (s) => {
    const parts = (big, bigName, small, smallName) => Math.floor(s / big) + " " + bigName + (small && Math.floor((s % big) / small) ? " " + Math.floor((s % big) / small) + " " + smallName : "");
    if (s < 60) return s + " s";
    if (s < 3600) return parts(60, "min", 1, "s");
    if (s < 86400) return parts(3600, "h", 60, "min");
    return parts(86400, "d", 3600, "h");
  };
  const tick = () => {
    if (document.hidden) return;
    for (const time of document.querySelectorAll("main:not(.stale) time[data-tick]")) {
      const ms = Date.now() + ahead - new Date(time.dateTime);
      if (isNaN(ms) || time.closest("[data-left]")) continue;
      const text = time.dataset.tick === "down" ? (ms < 0 ? "in " + span(Math.floor(-ms / 1000)) : "now") : span(Math.max(0, Math.floor(ms / 1000)));
      if (time.textContent !== text) time.textContent = text;
    }
  };
  document.addEventListener("htmx:afterSwap", setClock);
  const tickInPlace = () => steadily(tick);
  document.addEventListener("visibilitychange", tickInPlace);
  setClock();
  setInterval(tickInPlace, 1000);

  // The viewer can turn off the shortcuts of one character, because speech input and accidental keys
  // can trigger them (WCAG 2.1.4). The browser keeps the choice for all pages, or a page without
  // storage for itself.
  let hasShortcuts = true;
  const showShortcuts = () => {
    for (const e of document.querySelectorAll("[data-shortcuts]")) e.checked = hasShortcuts;
    for (const e of document.querySelectorAll(".find kbd")) e.hidden = !hasShortcuts;
  };
  const readShortcuts = () => {
    try {
      hasShortcuts = localStorage.getItem("holdfast-shortcuts") !== "off";
    } catch {} // no storage
    showShortcuts();
  };
  readShortcuts();
  document.addEventListener("change", (event) => {
    if (!("shortcuts" in event.target.dataset)) return;
    hasShortcuts = event.target.checked;
    try {
      localStorage.setItem("holdfast-shortcuts", hasShortcuts ? "on" : "off");
    } catch {} // no storage
    showShortcuts();
  });
  window.addEventListener("storage", readShortcuts); // another page changed the choice
  window.addEventListener("pageshow", readShortcuts); // after the browser has restored fields
  // In fields and with other keys held, the characters are text.
  const isShortcut = (event) => hasShortcuts && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest?.("input, select, textarea");

  // The key / leads to the search, and ? shows the keys.
  document.addEventListener("keydown", (event) => {
    if (!isShortcut(event)) return;
    if (event.key === "/" && document.getElementById("search")) {
      event.preventDefault();
      document.getElementById("search").focus();
    } else if (event.key === "?" && document.getElementById("keyboard")) {
      event.preventDefault();
      if (!document.getElementById("keyboard").open) document.getElementById("keyboard").showModal();
    }
  });

  // While the viewer types, the search shows a list of results: a combobox with a listbox. The arrow
  // keys choose a result, and Enter opens it. Without a choice, Enter sends the form.
  const search = document.getElementById("search");
  if (search) {
    const element = (name, attributes, ...children) => {
      const e = document.createElement(name);
      for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
      e.append(...children);
      return e;
    };
    const list = element("ul", { id: "suggestions", role: "listbox", "aria-label": "Suggestions", class: "suggestions", hidden: "" });
    const said = element("span", { role: "status", class: "hidden" });
    search.after(list, said);
    for (const [key, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false", autocomplete: "off" })) search.setAttribute(key, value);
    const of = encodeURIComponent;
    const kinds = [
      ["jobs", 8, (job) => [job.name, "job", "jobs/" + of(job.name)]],
      ["resources", 5, (name) => [name, name.includes(":") ? "resource" : "table", "locks/timeline?resource=" + of(name)]],
      ["replicas", 4, (name) => [name, "replica", "runs?replica=" + of(name)]],
      ["runs", 4, (run) => ["…" + run.id.slice(-8), "run of " + run.job, "runs/" + run.id]],
    ];
    const at = (path) => new URL(path, search.form.action);
    const options = () => [...list.children];
    const chosen = () => list.querySelector('[aria-selected="true"]');
    const choose = (option) => {
      chosen()?.setAttribute("aria-selected", "false");
      if (!option) return search.removeAttribute("aria-activedescendant");
      option.setAttribute("aria-selected", "true");
      option.scrollIntoView({ block: "nearest" });
      search.setAttribute("aria-activedescendant", option.id);
    };
    const isOpen = () => !list.hidden;
    const open = (shown) => {
      choose(null);
      list.hidden = !shown;
      search.setAttribute("aria-expanded", String(shown));
    };
    const show = (found, text) => {
      const kept = chosen()?.dataset.to; // an answer for more letters may come after a choice
      let more = found.more;
      const all = [];
      for (const [kind, most, describe] of kinds) {
        more ||= found[kind].length > most;
        all.push(...found[kind].slice(0, most).map(describe));
      }
      if (more) all.push(["All results", "search", "search?q=" + of(text)]);
      list.replaceChildren(...all.map(([name, kind, path], i) => element("li", { id: "suggestion-" + i, role: "option", "aria-selected": "false", "data-to": at(path).href },
        element("bdi", {}, name), " ", element("span", { class: "sub" }, kind))));
      said.textContent = all.length === 1 ? "1 suggestion" : count(all.length) + " suggestions";
      open(all.length > 0);
      choose(options().find((option) => option.dataset.to === kept));
    };
    let asking = new AbortController();
    let later = 0;
    const close = () => {
      clearTimeout(later);
      asking.abort();
      said.textContent = "";
      open(false);
    };
    const suggest = async () => {
      asking.abort();
      const { signal } = asking = new AbortController();
      const text = search.value.trim();
      if (!text) return close();
      try {
        const answer = await fetch(at("api/v1/search?q=" + of(text)), { signal });
        const found = answer.ok ? await answer.json() : null;
        if (signal.aborted) return;
        if (found && document.activeElement === search) show(found, text);
        else close();
      } catch {
        if (!signal.aborted) close(); // the form works without suggestions
      }
    };
    search.addEventListener("input", () => {
      clearTimeout(later);
      if (search.value.trim()) later = setTimeout(suggest, 150);
      else close();
    });
    search.addEventListener("keydown", (event) => {
      if (event.isComposing || event.ctrlKey || event.metaKey) return;
      const down = event.key === "ArrowDown";
      if (down || event.key === "ArrowUp") {
        event.preventDefault();
        if (!isOpen()) return suggest();
        const all = options();
        const from = all.indexOf(chosen());
        choose(all[down ? (from + 1) % all.length : (from < 1 ? all.length : from) - 1]);
      } else if (event.key === "Escape" && isOpen()) {
        event.preventDefault();
        close();
      }
    });
    search.form.addEventListener("submit", (event) => {
      if (!chosen()) return;
      event.preventDefault();
      location.assign(chosen().dataset.to);
    });
    search.addEventListener("blur", close);
    window.addEventListener("pagehide", close);
    list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
    list.addEventListener("click", (event) => {
      const option = event.target.closest("[data-to]");
      if (option) location.assign(option.dataset.to);
    });
  }

  // If a refresh fails, the page says so. An answer of another kind, such as the
  // sign-in page, does not replace the content.
  const offline = (hidden) => {
    for (const e of document.querySelectorAll(".offline")) e.hidden = hidden;
  };
  document.addEventListener("htmx:sendError", () => offline(false));
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { status, responseText } = event.detail.xhr;
    if (responseText.includes('id="live"')) return;
    event.detail.shouldSwap = false;
    // A refusal by a replica is a page of its own. That of a load balancer is none.
    const refused = status < 500 && status !== 429 && responseText.includes("Holdfast</title>");
    if (status === 204) offline(true); // a busy replica
    else if (status < 400 || refused) location.reload();
    else offline(false);
  });

  // A stream of events reports changes, and the page refreshes: at most once a
  // second, less often if answers are slow, with a random delay, and not while the
  // tab is hidden, or the user types or selects text. A closed stream is opened
  // again after each regular refresh.
  const live = () => document.querySelector("#live[data-events]");
  let stream = null;
  let asked = 0;
  let took = 0;
  let soon = 0;
  const changed = () => {
    soon ||= setTimeout(() => {
      soon = 0;
      live()?.dispatchEvent(new Event("changes"));
    }, Math.max(Math.random() * 200, asked + Math.max(1000, 2 * took) - Date.now()));
  };
  const connect = () => {
    if (!live() || document.hidden) {
      stream?.close();
      stream = null;
    } else if (!stream || stream.readyState === EventSource.CLOSED) {
      stream = new EventSource(live().dataset.events);
      for (const topic of new URL(stream.url).searchParams.get("topics").split(",")) stream.addEventListener(topic, changed);
    }
  };
  document.addEventListener("visibilitychange", connect);
  document.addEventListener("htmx:afterSwap", connect);
  window.addEventListener("pagehide", () => stream?.close());
  window.addEventListener("pageshow", connect);

  document.addEventListener("htmx:afterRequest", () => (took = Math.max(0, Date.now() - asked)));

  let touched = -Infinity;
  document.addEventListener("input", (event) => {
    if (!("kept" in event.target.dataset)) touched = Date.now();
  });
  document.addEventListener("selectionchange", () => (touched = getSelection().isCollapsed ? touched : Date.now()));
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.id === "live" && (document.hidden || Date.now() - touched < 20000)) event.preventDefault();
    else asked = Date.now();
  });

  // Some boxes need this script.
  const showScripted = (root) => {
    for (const e of root.querySelectorAll("[data-scripted]")) e.hidden = false;
  };

  // The box above selectable rows selects all, and the bar of actions counts them. One action takes a
  // limited number.
  const picks = () => [...document.querySelectorAll(".pick")];
  const countPicks = () => {
    const n = picks().filter((e) => e.checked).length;
    for (const e of document.querySelectorAll("[data-count]")) {
      const tooMany = n > e.dataset.most;
      e.textContent = n ? ": " + count(n) + (tooMany ? `, at most ${e.dataset.most} at once` : "") : "";
      for (const b of e.closest("form").querySelectorAll("button[formaction]")) b.disabled = tooMany;
    }
    const all = document.getElementById("pick-all");
    if (!all) return;
    all.checked = n > 0 && n === picks().length;
    all.indeterminate = n > 0 && !all.checked;
  };
  document.addEventListener("change", (event) => {
    if (event.target.id === "pick-all") for (const e of picks()) e.checked = event.target.checked;
    countPicks();
  });
  window.addEventListener("pageshow", countPicks);

  // A log shows its end first. That of a running run follows its end until the viewer scrolls up.
  // Then it stays at the line at its upper edge.
  const log = () => document.querySelector(".log.output");
  const following = () => document.querySelector("#follow");
  const toEnd = () => { if (log()) log().scrollTop = log().scrollHeight; };
  let reading = null;
  document.addEventListener("scroll", (event) => {
    if (following() && event.target === log()) following().checked = log().scrollHeight - log().scrollTop - log().clientHeight < 8;
  }, true);
  document.addEventListener("change", (event) => {
    if (event.target.id === "follow" && event.target.checked) toEnd();
  });
  document.addEventListener("htmx:beforeSwap", () => {
    reading = null;
    if (!log() || !following() || following().checked) return;
    const edge = log().getBoundingClientRect().top;
    const line = [...log().querySelectorAll("li")].find((e) => e.getBoundingClientRect().bottom > edge);
    if (line) reading = { id: line.id, below: line.getBoundingClientRect().top - edge };
  });
  document.addEventListener("htmx:afterSwap", () => {
    if (following()?.checked) toEnd();
    const line = reading && document.getElementById(reading.id);
    if (line) log().scrollTop += line.getBoundingClientRect().top - log().getBoundingClientRect().top - reading.below;
  });
  if (!document.querySelector(".log.output :target")) toEnd();

  // A search in a log has a current match, which the viewer moves by links and keys. Each refresh
  // shows that match again. The parts of a match have its number.
  let match = 0; // 0: that of the address
  const matches = (root) => root.querySelectorAll(".log mark[id]").length;
  const turn = (n, all) => (n + all - 1) % all + 1;
  const showMatch = (root) => {
    const all = matches(root);
    if (!match || !all) return;
    match = Math.min(match, all);
    for (const e of root.querySelectorAll(".log mark")) e.classList.toggle("this", e.dataset.match === String(match));
    for (const e of root.querySelectorAll(".log li.here, .log li:has(mark.this)")) e.classList.toggle("here", e.querySelector("mark.this") !== null);
    for (const e of root.querySelectorAll("[data-match-number]")) [e.dataset.matchNumber, e.textContent] = [match, count(match)];
    for (const e of root.querySelectorAll("[data-match-step]")) e.href = matchAddress(turn(match + Number(e.dataset.matchStep), all));
  };
  const matchAddress = (n) => {
    const to = new URL(location);
    to.searchParams.set("match", n);
    to.hash = "M" + n;
    return to.pathname + to.search + to.hash;
  };
  const seeMatch = () => {
    if (following()) following().checked = false; // it would leave the match
    document.querySelector(".log mark.this").scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  const stepMatch = (step) => {
    const all = matches(document);
    if (!all) return false;
    match = turn(Number(document.querySelector("[data-match-number]").dataset.matchNumber) + step, all);
    showMatch(document);
    history.replaceState(history.state, "", matchAddress(match));
    seeMatch();
    return true;
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-match-step]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && stepMatch(Number(link.dataset.matchStep))) event.preventDefault();
  });
  let back = false; // Shift is held, so Enter in the field leads back
  document.addEventListener("keydown", (event) => {
    back = event.shiftKey;
    if (!isShortcut(event)) return;
    if ((event.key === "n" || event.key === "p") && stepMatch(event.key === "n" ? 1 : -1)) event.preventDefault();
  });
  document.addEventListener("submit", (event) => {
    const field = event.target.querySelector("#find");
    if (field && field.value === field.defaultValue && stepMatch(back ? -1 : 1)) event.preventDefault();
  });
  if (document.querySelector(".log mark.this")) seeMatch();

  // The line below a timeline describes the bar under the pointer. Arrow keys move
  // from bar to bar, so that a chart is one tab stop. The keys + and - zoom, and so
  // does the wheel with the control key.
  const barsOf = (chart) => [...chart.querySelectorAll("a.bar, .restart, a.cell")];
  const chartKeys = (root) => {
    for (const chart of root.querySelectorAll(".timeline .chart, .lanes .chart, .grid")) barsOf(chart).forEach((e, i) => e.setAttribute("tabindex", i === 0 ? "0" : "-1"));
  };
  const pick = (event) => {
    const bar = event.target.closest && event.target.closest(".chart a.bar, .chart .restart");
    const said = document.querySelector("[data-picked]");
    if (bar && said) said.textContent = bar.querySelector("title").textContent;
  };
  document.addEventListener("mouseover", pick);
  document.addEventListener("focusin", pick);
  const zoom = (way) => {
    const link = document.querySelector('[data-zoom="' + way + '"]');
    if (link) link.click();
  };
  const middle = (e) => {
    const box = e.getBoundingClientRect();
    return { x: box.left + box.width / 2, y: box.top + box.height / 2 };
  };
  const nearest = (bars, from, key) => {
    const at = middle(from);
    const down = key === "ArrowDown" || key === "ArrowUp";
    let best = null, least = Infinity;
    for (const e of bars) {
      const p = middle(e);
      const along = down ? p.y - at.y : p.x - at.x, across = Math.abs(down ? p.x - at.x : p.y - at.y);
      const ahead = key === "ArrowDown" || key === "ArrowRight" ? along : -along;
      if (e === from || ahead <= 0.5) continue;
      const far = down ? ahead * 50 + across : ahead + across * 50;
      if (far < least) [best, least] = [e, far];
    }
    return best;
  };
  document.addEventListener("keydown", (event) => {
    const chart = event.target.closest && event.target.closest(".timeline, .lanes, .grid");
    if (!chart || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "-") return zoom(event.key === "+" ? "in" : "out");
    const bar = event.target.closest(".bar, .restart, .cell");
    if (!bar || !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const next = nearest(barsOf(chart), bar, event.key);
    if (!next) return;
    bar.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  document.addEventListener("wheel", (event) => {
    if (!event.ctrlKey || !event.target.closest || !event.target.closest(".timeline")) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? "in" : "out");
  }, { passive: false });
  // A timeline that is wider than its frame shows its end first.
  for (const e of document.querySelectorAll(".timeline")) e.scrollLeft = e.scrollWidth;

  // A refresh changes the page in place. An element with an id, a data-key or a heading is the same
  // thing before and after it, at whatever place of its list. Other elements are the same if they
  // have the same name and place. So the focus, marked text, ticked boxes and scroll positions stay,
  // and only what changed is drawn again.
  const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE && (node.id || node.dataset.key || node.getAttribute("aria-labelledby"))) || "";
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
  const patch = (node, fresh) => {
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (node.nodeValue !== fresh.nodeValue) node.nodeValue = fresh.nodeValue;
      return;
    }
    // The viewer opens, closes and ticks, and the script sets heights.
    const kept = (name) => ["style", "open", "checked"].includes(name);
    for (const { name, value } of fresh.attributes) if (!kept(name) && node.getAttribute(name) !== value) node.setAttribute(name, value);
    for (const { name } of [...node.attributes]) if (!kept(name) && !fresh.hasAttribute(name)) node.removeAttribute(name);
    if ("slots" in fresh.dataset) patchSlots(node, fresh);
    else patchChildren(node, fresh);
  };
  const patchChildren = (node, fresh) => {
    const wanted = new Set([...fresh.children].map(keyOf));
    const keyed = new Map();
    for (const child of [...node.children]) {
      const key = keyOf(child);
      if (key && (!wanted.has(key) || keyed.has(key))) child.remove();
      else if (key) keyed.set(key, child);
    }
    let at = node.firstChild;
    for (const want of [...fresh.childNodes]) {
      const key = keyOf(want);
      const have = key ? keyed.get(key) : at;
      if (!have || !alike(have, want)) {
        node.insertBefore(want, at);
        continue;
      }
      keyed.delete(key);
      if (have === at) at = at.nextSibling;
      else node.insertBefore(have, at);
      patch(have, want);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };
  // In a list with data-slots, entries keep their places while the page is open. An entry that left
  // the list keeps its place, too: until a new entry takes it, or no entry is below it. In a list
  // with data-slots="keep" it stays in sight, marked by the stylesheet. There, new entries take its
  // place only if the list is long or the box with data-scrolls around it has no more room.
  const patchSlots = (node, fresh) => {
    const keeps = fresh.dataset.slots === "keep";
    const had = new Map([...node.children].map((child) => [keyOf(child), child]));
    const entries = [...fresh.children];
    const wanted = new Set(entries.map(keyOf));
    for (const [key, child] of had) if (!wanted.has(key)) leave(child);
    const left = [...node.children].filter((child) => "left" in child.dataset);
    const box = node.closest("[data-scrolls]");
    const isFull = () => node.children.length > maxKept || (box && box.scrollHeight > box.clientHeight + 1);
    for (const entry of entries) {
      const have = had.get(keyOf(entry));
      if (have) {
        patch(have, entry);
        continue;
      }
      node.append(entry);
      const free = keeps && !isFull() ? undefined : left.shift();
      if (!free) continue;
      free.replaceWith(entry);
      heirs.set(free, entry);
    }
    while (!keeps && node.lastElementChild && "left" in node.lastElementChild.dataset) node.lastElementChild.remove();
  };
  const maxKept = 60;
  const heirs = new WeakMap(); // of entries whose places others took
  const leave = (entry) => {
    entry.dataset.key = keyOf(entry);
    entry.removeAttribute("id"); // which another list may have now
    entry.dataset.left = "";
    entry.inert = true;
    for (const e of entry.querySelectorAll(".pick")) e.checked = false;
  };

  // A region does not become lower by an update, until the viewer does something.
  const regions = ".overall, .panel, .lead, .words, .chips, .node, .list > li, .chain li, .hop, .hold, .terms, .rows tbody tr";
  const heightOf = (e) => e.getBoundingClientRect().height;
  const heights = () => [...document.querySelectorAll("#live :is(" + regions + ")")].map((e) => [e, heightOf(e)]);
  const steadily = (update) => {
    const before = heights();
    // These regions do not become higher either: their lists are scrolled.
    for (const e of document.querySelectorAll("#live :is([data-steady], .six, .roomy)")) e.style.maxHeight = heightOf(e) + "px";
    update();
    const lower = before.map(([e, height]) => [e.isConnected ? e : heirs.get(e), height]).filter(([e, height]) => e && height > heightOf(e));
    for (const [e, height] of lower) e.style[getComputedStyle(e).display === "table-row" ? "height" : "minHeight"] = height + "px";
  };
  for (const act of ["click", "change", "toggle"]) {
    document.addEventListener(act, (event) => {
      if (event.target.closest?.("#live")) release();
    }, true);
  }
  const release = () => {
    for (const e of document.querySelectorAll("#live [style]")) e.removeAttribute("style");
  };
  window.addEventListener("resize", release);
  // The size of text has no event of its own: a box of 1 rem changes with it.
  const ruler = document.createElement("span");
  ruler.style.cssText = "position: absolute; width: 1rem; height: 1rem; visibility: hidden";
  document.body.append(ruler);
  new ResizeObserver(release).observe(ruler);

  // It comes after all that reads the page before a refresh.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (!event.detail.shouldSwap) return;
    event.detail.shouldSwap = false;
    const answer = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
    for (const prepare of [localize, showScripted, chartKeys, showMatch]) prepare(answer);
    const focused = document.activeElement;
    const updates = () => ["hx-get", "hx-trigger"].map((name) => event.target.getAttribute(name)).join();
    const polled = updates();
    steadily(() => patch(event.target, answer.getElementById("live")));
    document.title = answer.title;
    // An element loses the focus when it moves.
    if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
    countPicks();
    if (updates() !== polled) htmx.process(event.target); // they have ended, or have another address
    for (const done of ["htmx:afterSwap", "htmx:afterSettle"]) document.dispatchEvent(new CustomEvent(done));
  });

  for (const prepare of [localize, showScripted, chartKeys]) prepare(document);
})();
