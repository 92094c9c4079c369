/**
 * The page of calculators: reads what was typed, asks `config.js` and `arithmetic.js`, shows it.
 *
 * The forms stand in the page, hidden until this script runs. Each is computed anew when one of its
 * fields or the model changes. What cannot be computed is said in one line, in the result's place.
 */
"use strict";

(() => {
  const { arithmetic: sums, config: configs } = globalThis.insideGenerate;
  const [KIB, SPACE] = [1024, "\u00a0"]; // no line ends between a number and its unit
  const element = (id) => document.getElementById(id);
  const grouped = (number) => number.toLocaleString("en");

  /** An error that belongs to a field, so that the field can be marked. */
  function wrong(field, message) {
    const error = new Error(message);
    error.field = field;
    return error;
  }

  const nameOf = (field) => field.labels[0].textContent;

  /** A field's number; thousands may be set apart by commas. */
  function readNumber(id, low, high, pattern, kind) {
    const field = element(id);
    const text = field.value.trim();
    const bare = /^[1-9]\d{0,2}(,\d{3})+(\.\d+)?$/.test(text) ? text.replaceAll(",", "") : text;
    const value = pattern.test(bare) ? Number(bare) : NaN;
    if (value >= low && value <= high) return value;
    const range = `${kind} from ${grouped(low)} to ${grouped(high)}`;
    throw wrong(field, `${nameOf(field)} must be ${range}, not ${configs.shown(field.value)}.`);
  }

  const whole = (id, high) => readNumber(id, 1, high, /^\d+$/, "a whole number");
  const decimal = (id, low, high) => readNumber(id, low, high, /^\d+(\.\d+)?$/, "a number");
  const bytesEach = (id) => sums.FORMATS[element(id).value];

  /** Bytes as a person reads them: in full, and in the unit that fits. */
  function size(bytes) {
    const [unit, name] =
      bytes >= KIB ** 3 ? [KIB ** 3, "GiB"] : bytes >= KIB ** 2 ? [KIB ** 2, "MiB"] : [KIB, "KiB"];
    const short = (Number(bytes) / unit).toLocaleString("en", { maximumFractionDigits: 2 });
    return { full: `${grouped(bytes)} bytes`, short: `${short}${SPACE}${name}` };
  }

  const both = (bytes) => (bytes < KIB ? size(bytes).full : `${size(bytes).full} =${SPACE}${size(bytes).short}`);

  function time(seconds) {
    if (seconds === Infinity) return "longer than can be counted";
    const [value, unit] =
      seconds < 1e-3 ? [seconds * 1e6, "µs"] : seconds < 1 ? [seconds * 1e3, "ms"] : [seconds, "s"];
    return `${value.toLocaleString("en", { maximumSignificantDigits: 4 })}${SPACE}${unit}`;
  }

  /** The chosen model, or an error for every calculator. */
  function model(needsWeights) {
    const read = configs.readConfig(element("calc-config").value);
    if (needsWeights && !read.weighed) {
      const known = configs.WEIGHED.join(", ");
      throw new Error(
        `The weights of model type ${configs.shown(read.type)} are not known to this page; it knows ${known}.`,
      );
    }
    return read;
  }

  function cache() {
    const { sizes } = model(false);
    const [length, batch] = [whole("calc-length", 1e9), whole("calc-batch", 1e6)];
    const each = bytesEach("calc-format");
    const bytes = sums.kvCacheBytes(sizes, length, batch, each);
    const mha = sums.kvCacheBytes(sums.asMha(sizes), length, batch, each);
    const factors = [2, sizes.layers, sizes.kvHeads, sizes.headDim, batch, length, each];
    return {
      sentence: `${factors.map(grouped).join(" · ")} = ${both(bytes)}.`,
      rows: [
        ["One token, one row", both(sums.kvCacheBytes(sizes, 1, 1, each))],
        ["One row", both(sums.kvCacheBytes(sizes, length, 1, each))],
        ["All rows", both(bytes)],
        [`With ${grouped(sizes.heads)} KV heads (MHA)`, both(mha)],
        ["Sharing saves a factor of", grouped(sizes.heads / sizes.kvHeads)],
      ],
    };
  }

  function serving() {
    const { sizes } = model(true);
    const [users, context] = [whole("calc-users", 1e6), whole("calc-context", 1e9)];
    const memory = decimal("calc-memory", 0.001, 1e6) * KIB ** 3;
    const spare = decimal("calc-spare", 0, 90) / 100;
    const [ofWeights, ofCache] = [bytesEach("calc-weight-format"), bytesEach("calc-cache-format")];
    const inside = Math.max(ofWeights, 2); // weights of 8 bits are computed with in 16
    const weights = sums.weightBytes(sizes, ofWeights);
    const row = sums.kvCacheBytes(sizes, context, 1, ofCache);
    const { logits, activations } = sums.prefillExtra(sizes, context, inside, 1);
    const extra = logits + activations;
    const all = weights + row * BigInt(users) + extra;
    const fit = sums.rowsInMemory(memory, spare, weights, row);
    const room = memory * spare < Number(extra) ? " The part kept free is smaller than that prompt's logits and activations: keep more." : "";
    return {
      sentence:
        `${size(weights).short} of weights, ${size(row * BigInt(users)).short} of KV cache for ${grouped(users)} × ${grouped(context)} tokens, ` +
        `and ${size(extra).short} while one prompt of that length is read: ${size(all).short}. ` +
        `${grouped(fit)} ${fit === 1 ? "user of this context fits" : "users of this context fit"}.${room}`,
      rows: [
        [`Weights, ${grouped(sums.parameterCount(sizes))} numbers`, both(weights)],
        ["KV cache of one user", both(row)],
        ["KV cache of all users", both(row * BigInt(users))],
        ["Logits at the peak of that prefill (last row only)", logits ? both(logits) : "0 bytes: the peak is in an MLP"],
        ["Activations at the peak of that prefill", both(activations)],
        ["Together", both(all)],
        ["Logits, if the rows of all positions were kept", both(sums.logitsBytes(sizes, context, 1, inside))],
        ["Users that fit into the memory", grouped(fit)],
      ],
    };
  }

  function run() {
    const { sizes } = model(true);
    const what = {
      promptTokens: whole("calc-prompt", 1e9),
      newTokens: whole("calc-new", 1e9),
      batch: whole("calc-run-batch", 1e6),
      bytesEach: bytesEach("calc-run-format"),
    };
    const machine = { gbPerS: decimal("calc-gb", 0.001, 1e6), gflopPerS: decimal("calc-gflop", 0.001, 1e9) };
    const { ttft, tpot, totalS, tokensPerS } = sums.runFloors(sizes, what, machine);
    const pace = tpot ? `TPOT at least ${time(tpot.seconds)}` : "no TPOT, since one token has no pace";
    const rows = [
      ["TTFT, at least", `${time(ttft.seconds)}, set by ${ttft.bound}`],
      ["TPOT, at least", tpot ? `${time(tpot.seconds)}, set by ${tpot.bound}` : "none: one token has no pace"],
    ];
    if (tpot) {
      const rate = tokensPerS.toLocaleString("en", { maximumSignificantDigits: 4 });
      rows.push(["Tokens per second while decoding, all rows, at most", rate]);
    }
    rows.push(["All of it, at least", time(totalS)]);
    return { sentence: `Computed, not measured: TTFT at least ${time(ttft.seconds)}, ${pace}, ${time(totalS)} in all.`, rows };
  }

  const CALCULATORS = { cache, serving, run };

  /** Fill the table under a result; null empties it. */
  function fill(table, rows) {
    table.hidden = rows === null;
    table.tBodies[0].replaceChildren(
      ...(rows ?? []).map(([name, value]) => {
        const row = document.createElement("tr");
        const [head, cell] = [document.createElement("th"), document.createElement("td")];
        head.scope = "row";
        [head.textContent, cell.textContent] = [name, value];
        row.append(head, cell);
        return row;
      }),
    );
  }

  /** Compute one form's result, or say in its place why there is none. */
  function compute(form) {
    const [output, table] = [form.querySelector("output"), form.querySelector("table")];
    form.querySelectorAll("[aria-invalid]").forEach((field) => field.removeAttribute("aria-invalid"));
    try {
      const { sentence, rows } = CALCULATORS[form.dataset.calculator]();
      output.textContent = sentence;
      output.classList.remove("refused");
      fill(table, rows);
    } catch (error) {
      output.textContent = `No result: ${error.message}`;
      output.classList.add("refused");
      fill(table, null);
      error.field?.setAttribute("aria-invalid", "true");
    }
  }

  /** What to do about a number format that the page does not offer. */
  function formatNote(dtype) {
    const said = `The number format ${configs.shown(dtype)} is not offered here: choose one in each form below.`;
    return dtype && !Object.hasOwn(sums.FORMATS, dtype) ? [said] : [];
  }

  /** Say what was read from the config, and take over its number format. */
  function describe() {
    const [said, field] = [element("calc-said"), element("calc-config")];
    field.removeAttribute("aria-invalid");
    said.classList.remove("refused");
    try {
      const { sizes, dtype, notes } = model(false);
      if (Object.hasOwn(sums.FORMATS, dtype)) {
        document.querySelectorAll("select.format").forEach((select) => (select.value = dtype));
      }
      const heads = `${grouped(sizes.heads)} query heads, ${grouped(sizes.kvHeads)} KV heads`;
      const read = `Read: ${grouped(sizes.layers)} layers, ${heads}, head size ${grouped(sizes.headDim)}.`;
      said.textContent = [read, ...notes, ...formatNote(dtype)].join(" ");
    } catch (error) {
      said.textContent = `Not read: ${error.message}`;
      said.classList.add("refused");
      field.setAttribute("aria-invalid", "true");
    }
  }

  /** A list of choices that ends in one for the reader's own input. */
  const choices = (select, names, own) =>
    select.replaceChildren(...[...names, own].map((name) => new Option(name, name)));

  function start() {
    const { models, machines } = JSON.parse(element("calculators-data").textContent);
    const forms = [...document.querySelectorAll("form[data-calculator]")];
    const computeAll = () => forms.forEach(compute);
    const [preset, config, computer] = ["calc-model", "calc-config", "calc-machine"].map(element);

    const takeModel = () => {
      if (preset.value in models) config.value = JSON.stringify(models[preset.value], null, 1);
      else config.value = "";
      describe();
      computeAll();
    };
    const takeMachine = () => {
      const found = machines.find((one) => one.name === computer.value);
      element("calc-provenance").textContent = found
        ? `Recorded in another run: ${found.provenance}.`
        : "Your own numbers: from the command bench, or from a maker's data sheet.";
      if (found) [element("calc-gb").value, element("calc-gflop").value] = [found.gb_per_s, found.gflop_per_s];
    };
    choices(preset, Object.keys(models), "Another one, pasted below");
    choices(computer, machines.map((one) => one.name), "My own numbers");
    preset.addEventListener("change", takeModel);
    config.addEventListener("input", () => {
      preset.selectedIndex = preset.length - 1;
      describe();
      computeAll();
    });
    computer.addEventListener("change", takeMachine);
    ["calc-gb", "calc-gflop"].forEach((id) =>
      element(id).addEventListener("input", () => {
        computer.selectedIndex = computer.length - 1;
        takeMachine();
      }),
    );
    forms.forEach((form) => form.addEventListener("input", () => compute(form)));
    document.querySelectorAll("form.calculator").forEach((form) => {
      form.hidden = false;
      form.addEventListener("submit", (event) => event.preventDefault());
    });
    takeMachine();
    takeModel();
  }

  start();
})();
