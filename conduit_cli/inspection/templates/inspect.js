"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const data = read("inspection"), drawing = read("drawing");
  const total = data.tokens.visual, pages = data.pages;
  const byId = (id) => document.getElementById(id);
  const articles = [...document.querySelectorAll("article")];
  const links = [...document.querySelectorAll("nav a")];
  const fields = { "score": "scores", "depth": "depth", "attention": "attention_of_tokens", "value norm": "value_norms" };
  const state = { layer: "score", page: drawing.order[0], budget: data.tokens.refreshed, ahead: 0, cursor: null, grids: [] };

  // The engine's budget: floor(ratio * total), the ratio being the decimal as typed; null if it is none.
  function budgetOf(text) {
    const parts = /^\s*(\d*)\.?(\d*)(?:e([+-]?\d{1,3}))?\s*$/i.exec(text);
    if (!parts || parts[1] + parts[2] === "") return null;
    const shift = Number(parts[3] || 0) - parts[2].length;
    let top = BigInt(parts[1] + parts[2]) * BigInt(total), bottom = 1n;
    if (shift >= 0) top *= 10n ** BigInt(shift); else bottom = 10n ** BigInt(-shift);
    return top <= BigInt(total) * bottom ? Number(top / bottom) : null;
  }

  // Tokens of a page that a budget buys: the first of the ranking; as answered where there is none.
  function chosen(page, budget) {
    if (!page.ranks) return page.refreshed;
    return page.ranks.flatMap((rank, token) => (rank < budget ? [token] : []));
  }

  function bought(page) {
    return page.ranks.flatMap((rank, token) => (rank >= state.budget && rank < state.ahead ? [token] : []));
  }

  // A page's grids on their figures, rows and columns in pixels of the picture; numbers as in geometry.py.
  function gridsOn(index) {
    const figures = articles[index].querySelectorAll("figure");
    return pages[index].grids.map((grid, at) => {
      const figure = figures[at], image = figure.querySelector("img");
      const pixels = (spans, side) => spans.map((span) => span.map((edge) => Math.floor(edge * Number(image.getAttribute(side)) + 0.5)));
      return { ...grid, figure, rows: pixels(grid.rows, "height"), columns: pixels(grid.columns, "width") };
    });
  }

  // Cells of a grid whose tokens are among these.
  function held(grid, tokens) {
    const among = new Set(tokens);
    return grid.tokens.flatMap((token, cell) => (among.has(token) ? [cell] : []));
  }

  // Outline of a set of cells, and the lines inside it, as SVG paths.
  function outline(grid, cells) {
    const inside = new Set(cells), across = grid.columns.length;
    let outer = "", inner = "";
    for (const cell of cells) {
      const x = cell % across, [left, right] = grid.columns[x], [top, bottom] = grid.rows[(cell - x) / across];
      const sides = [
        [cell - across, `M${left} ${top}H${right}`], [cell + across, `M${left} ${bottom}H${right}`],
        [x > 0 ? cell - 1 : -1, `M${left} ${top}V${bottom}`], [x + 1 < across ? cell + 1 : -1, `M${right} ${top}V${bottom}`],
      ];
      for (const [neighbour, line] of sides) {
        if (!inside.has(neighbour)) outer += line; else if (neighbour > cell) inner += line;
      }
    }
    return [outer, inner];
  }

  // Where a number lies on its layer's scale, 0 to 1.
  function place(scale, value) {
    if (scale.high <= scale.low) return 0;
    const share = Math.min(1, Math.max(0, (value - scale.low) / (scale.high - scale.low)));
    return scale.root ? Math.sqrt(share) : share;
  }

  const heat = (at) => [...drawing.colours[Math.round(at * 255)], Math.round(255 * (0.1 + 0.52 * at))];
  const BOTH = [0, 140, 90, 130], MINE = [0, 84, 196, 120], THEIRS = [236, 120, 0, 130], NOTHING = [0, 0, 0, 0];

  // Colour of each token of a page under the layer that is switched on: red, green, blue, alpha.
  function colours(page) {
    const mine = new Set(chosen(page, state.budget));
    const tokens = Array.from({ length: page.tokens }, (_, token) => token);
    if (state.layer === "refreshed") return tokens.map((t) => (mine.has(t) ? MINE : NOTHING));
    if (state.layer === "overlap") {
      const theirs = new Set(page.versus);
      return tokens.map((t) => (mine.has(t) ? (theirs.has(t) ? BOTH : MINE) : theirs.has(t) ? THEIRS : NOTHING));
    }
    return page[fields[state.layer]].map((value) => heat(place(drawing.scales[state.layer], value)));
  }

  function paint() {
    const page = pages[state.page], mine = chosen(page, state.budget), colour = colours(page);
    const next = byId("next").checked && page.ranks ? bought(page) : [];
    state.grids.forEach((grid, at) => {
      if (!grid.tokens.length) return;
      const ink = canvasOn(grid.figure).getContext("2d"), across = grid.columns.length;
      ink.clearRect(0, 0, ink.canvas.width, ink.canvas.height);
      grid.tokens.forEach((token, cell) => {
        const [red, green, blue, alpha] = colour[token];
        const [left, right] = grid.columns[cell % across], [top, bottom] = grid.rows[Math.floor(cell / across)];
        ink.fillStyle = `rgba(${red}, ${green}, ${blue}, ${alpha / 255})`;
        ink.fillRect(left, top, right - left, bottom - top);
      });
      const cells = held(grid, mine), [outer, inner] = outline(grid, cells), cursor = state.cursor;
      const draw = (name, path) => grid.figure.querySelector(name).setAttribute("d", path);
      draw(".seam", outer);
      draw(".outer", outer);
      draw(".inner", inner);
      draw(".ahead", outline(grid, held(grid, next))[0]);
      draw(".cursor", cursor && cursor.grid === at ? outline(grid, [cursor.cell])[0] : "");
      count(grid.figure.parentNode, cells.length);
    });
    const placed = new Set(state.grids.flatMap((grid) => grid.tokens));
    count(articles[state.page].querySelector(".unplaced"), mine.filter((token) => !placed.has(token)).length);
  }

  // How many are refreshed, where the page tells it.
  function count(box, number) {
    const shown = box && box.querySelector(".held");
    if (shown) shown.textContent = String(number);
  }

  function canvasOn(figure) {
    const image = figure.querySelector("img");
    let canvas = figure.querySelector("canvas");
    if (!canvas) {
      canvas = document.createElement("canvas");
      canvas.width = image.getAttribute("width");
      canvas.height = image.getAttribute("height");
      figure.insertBefore(canvas, figure.querySelector("svg"));
    }
    return canvas;
  }

  // Three significant digits.
  function short(value) {
    return value && Math.abs(value) < 0.01 ? value.toExponential(2) : String(Number(value.toPrecision(3)));
  }

  // The numbers of the token under the pointer or the cursor.
  function describe() {
    const page = pages[state.page], box = articles[state.page].querySelector(".token"), at = state.cursor;
    box.replaceChildren();
    if (!state.grids.some((grid) => grid.tokens.length)) return;
    if (at === null) {
      const hint = document.createElement("p");
      hint.className = "note";
      hint.textContent = "Point at a cell, or focus the page and press the arrow keys, to see a token's numbers.";
      box.append(hint);
      return;
    }
    const grid = state.grids[at.grid], across = grid.columns.length, token = grid.tokens[at.cell];
    const mine = chosen(page, state.budget).includes(token);
    const where = `row ${Math.floor(at.cell / across) + 1}, column ${(at.cell % across) + 1}`;
    const lines = [["token", `${token}: ${where}${state.grids.length > 1 ? ` of the ${grid.name}` : ""}`]];
    for (const layer of Object.keys(drawing.scales)) lines.push([layer, short(page[fields[layer]][token])]);
    if (page.ranks) lines.push(["place", `${page.ranks[token] + 1} of ${total}`]);
    if (page.ranks && !mine) lines.push(["bought at", `ratio ${(Math.ceil((1000 * (page.ranks[token] + 1)) / total) / 1000).toFixed(3)}`]);
    lines.push(["state", mine ? "refreshed" : "reused"]);
    if (page.versus) lines.push([`by ${data.versus.policy}`, page.versus.includes(token) ? "refreshed" : "reused"]);
    const list = document.createElement("dl");
    for (const [term, detail] of lines) {
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = term;
      dd.textContent = detail;
      list.append(dt, dd);
    }
    box.append(list);
  }

  function legend() {
    const scale = drawing.scales[state.layer], said = {
      refreshed: "blue: refreshed for this question",
      overlap: `green: both, blue: ${data.policy} only, orange: ${data.versus ? data.versus.policy : ""} only`,
    };
    byId("meaning").textContent = (scale ? scale.title : said[state.layer]) + "; outlined: refreshed";
    byId("key").hidden = !scale;
    if (!scale) return;
    const number = (at) => short(scale.low + (scale.high - scale.low) * (scale.root ? at * at : at));
    for (const [id, at] of [["low", 0], ["middle", 0.5], ["high", 1]]) {
      byId(id).textContent = (id === "high" && scale.cut ? "≥ " : "") + number(at);
    }
    const line = Array.from({ length: 256 }, (_, i) => heat(i / 255)).flat();
    byId("bar").getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(line), 256, 1), 0, 0);
  }

  // What this ratio buys, and what the next percent would.
  function tell() {
    if (data.fixed_because) return;
    const gains = pages.map((page, i) => [i, bought(page).length]).filter(([, n]) => n).sort((a, b) => b[1] - a[1]);
    const several = new Set(pages.map((page) => page.label)).size > 1;
    const name = (i) => `page ${pages[i].page}` + (several ? ` of ${pages[i].label}` : "");
    const most = gains.slice(0, 3).map(([i, n]) => `${n} on ${name(i)}`).join(", ");
    const more = state.ahead - state.budget;
    byId("told").textContent = `${state.budget} of ${total} tokens; the next percent would buy ${more}` +
      (more ? ` (${most}${gains.length > 3 ? ", …" : ""})` : "");
  }

  function setRatio(text, fromSlider) {
    const budget = budgetOf(text);
    byId("typed").setAttribute("aria-invalid", String(budget === null));
    if (budget === null) return;
    if (fromSlider) byId("typed").value = text; else byId("slider").value = String(Math.round(Number(text) * 1000));
    state.budget = budget;
    state.ahead = Math.min(total, budgetOf((Number(text) + 0.01).toFixed(12)) ?? total);
    tell();
    paint();
    describe();
  }

  function show(index) {
    for (const grid of state.grids) grid.figure.querySelector("canvas")?.remove();  // as large as the pictures: few at a time
    state.page = index;
    state.cursor = null;
    state.grids = gridsOn(index);
    articles.forEach((article, i) => { article.hidden = i !== index; });
    for (const link of links) {
      if (link.hash === `#page-${index}`) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    }
    paint();
    describe();
  }

  function moveTo(grid, cell) {
    const cursor = state.cursor;
    if (cell === null ? cursor === null : cursor && cursor.grid === grid && cursor.cell === cell) return;
    state.cursor = cell === null ? null : { grid, cell };
    paint();
    describe();
  }

  function listen(figure, index, at) {
    const { rows, columns, tokens } = pages[index].grids[at], across = columns.length;
    if (!tokens.length) return;
    const holds = (share) => ([start, end]) => share >= start && share < end;
    const under = (event) => {
      const box = figure.getBoundingClientRect();
      const x = columns.findIndex(holds((event.clientX - box.left) / box.width));
      const y = rows.findIndex(holds((event.clientY - box.top) / box.height));
      return x >= 0 && y >= 0 ? y * across + x : null;
    };
    figure.addEventListener("pointermove", (event) => moveTo(at, under(event)));
    figure.addEventListener("pointerdown", (event) => moveTo(at, under(event)));
    figure.addEventListener("pointerleave", () => { if (document.activeElement !== figure) moveTo(at, null); });
    figure.addEventListener("focus", () => { if (state.cursor?.grid !== at) moveTo(at, 0); });
    figure.addEventListener("blur", () => moveTo(at, null));
    figure.addEventListener("keydown", (event) => {
      const cell = state.cursor?.grid === at ? state.cursor.cell : 0, x = cell % across;
      const next = {
        ArrowLeft: x > 0 ? cell - 1 : cell, ArrowRight: x + 1 < across ? cell + 1 : cell,
        ArrowUp: cell >= across ? cell - across : cell, ArrowDown: cell + across < tokens.length ? cell + across : cell,
        Home: cell - x, End: cell - x + across - 1,
      }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      moveTo(at, next);
    });
  }

  function fromAddress() {
    const named = /^#page-(\d+)$/.exec(location.hash);
    if (!named || Number(named[1]) >= pages.length) return;
    show(Number(named[1]));
    articles[state.page].scrollIntoView();  // the browser looked for it while it was hidden
  }

  const form = byId("controls");
  document.documentElement.classList.add("live");
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", (event) => {
    if (event.target.name === "layer") { state.layer = event.target.value; legend(); }
    paint();
  });
  byId("slider").addEventListener("input", (event) => setRatio(String(event.target.value / 1000), true));
  byId("typed").addEventListener("input", (event) => setRatio(event.target.value, false));
  byId("back").addEventListener("click", () => { byId("typed").value = drawing.ratio; setRatio(drawing.ratio, false); });
  addEventListener("hashchange", fromAddress);
  state.layer = form.elements.layer.value || form.querySelector("input:checked").value;
  byId("typed").value = drawing.ratio;
  byId("slider").value = String(Math.round(Number(drawing.ratio) * 1000));
  articles.forEach((article, index) => {
    article.querySelectorAll("figure").forEach((figure, at) => listen(figure, index, at));
  });
  legend();
  show(state.page);
  if (!data.fixed_because) setRatio(drawing.ratio, false);
  fromAddress();
})();
