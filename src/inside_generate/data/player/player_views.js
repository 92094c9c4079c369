/* What the generation player draws. Each view is built once for a run and then shows a step:
   {node, show(n)}, where n is the number of tokens so far, 0 before prefill. */
"use strict";
(function (course) {
  /** Make an element. Text goes in as text: what a token holds is never taken for markup. */
  function make(tag, className = "", text = "") {
    const node = document.createElement(tag);
    if (className) node.className = className;
    node.textContent = text;
    return node;
  }

  /** Make an element around others. */
  function box(tag, className, ...children) {
    const node = make(tag, className);
    node.append(...children);
    return node;
  }

  const shape = (sizes) => `[${sizes.join(", ")}]`;
  const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;
  const quoted = (token) => `“${token.text}”`;

  /** Seconds as a reader wants them: ms below one second. */
  function duration(seconds) {
    if (seconds >= 1) return `${seconds.toFixed(2)} s`;
    return `${(1000 * seconds).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  }

  /** Bytes in KiB or MiB, powers of 1024; nothing where the record does not tell. */
  function size(bytes) {
    if (bytes === null) return "";
    const kib = bytes / 1024;
    return kib < 1024 ? `${Number(kib.toFixed(1))} KiB` : `${(kib / 1024).toFixed(2)} MiB`;
  }

  /** A probability in per cent, with no rounding to 0 or to 100. */
  function percent(probability) {
    if (probability < 0.0005) return "<0.1 %";
    return probability > 0.9995 ? ">99.9 %" : `${(100 * probability).toFixed(1)} %`;
  }

  /** The answer so far, its newest token marked. Its longest states, unseen, keep the height. */
  function textView(run) {
    const said = make("p", "said");
    const half = run.steps.flatMap((step, index) => (step.pending ? [index + 1] : []));
    const sizers = [...half.slice(-2), run.steps.length].map((n) => {
      const sizer = make("p", "said sizer");
      sizer.setAttribute("aria-hidden", "true");
      say(sizer, run, n);
      return sizer;
    });
    const question = box("p", "asked", make("b", "", "Prompt: "), make("bdi", "", run.prompt));
    const node = box("div", "text", question, box("div", "stack", ...sizers, said));
    return { node, show: (n) => say(said, run, n) };
  }

  /** Write the answer after n tokens. */
  function say(said, run, n) {
    said.replaceChildren(make("b", "", "Answer: "));
    if (!n) return said.append(make("span", "quiet", "nothing yet"));
    said.append(run.steps.slice(0, n - 1).map((step) => step.adds).join(""));
    const { adds, pending, token } = run.steps[n - 1];
    if (adds) said.append(make("mark", "newest", adds));
    if (token.control) said.append(make("span", "chip", token.text));
    if (pending) said.append(make("span", "chip", `${pending}: ${bytesOf(pending)}`));
  }

  const bytesOf = (pending) =>
    `${count(pending.split(" ").length, "byte")} of an unfinished character`;

  /** What this forward was given and gave back, as names and values. */
  function factsView(run) {
    const names = ["Phase", "Input", "Mask", "KV cache", "Logits", "Time"];
    const values = names.map(() => make("dd"));
    const rows = names.map((name, index) => box("div", "", make("dt", "", name), values[index]));
    const node = box("dl", "facts", ...rows);
    function show(n) {
      node.dataset.phase = n ? run.steps[n - 1].phase : "none";
      const told = n ? facts(run, n) : ["not started", "–", "–", "empty", "–", "–"];
      values.forEach((value, index) => (value.textContent = told[index]));
    }
    return { node, show };
  }

  /** The values that belong to the names above, after n tokens. */
  function facts(run, n) {
    const step = run.steps[n - 1];
    const what = n === 1 ? "the whole prompt" : `token ${n - 1} alone`;
    const bytes = size(step.cache_bytes);
    return [
      step.phase,
      `${shape(step.input_shape)} ${what}`,
      `${shape([1, step.mask_length])} all ones`,
      count(step.cache_length, "token") + (bytes ? `, ${bytes}` : ""),
      `${shape(step.logits_shape)}${step.logits_shape[1] > 1 ? " last row used" : ""}`,
      duration(step.seconds),
    ];
  }

  /** One cell for each token that there will be: cached, new in this forward, picked, to come. */
  function cacheView(run) {
    const total = run.length + run.steps.length;
    const cells = Array.from({ length: total }, () => make("i"));
    cells.slice(0, run.length).forEach((cell) => cell.classList.add("prompt"));
    const strip = box("div", total > 200 ? "strip dense" : "strip", ...cells);
    strip.setAttribute("role", "img");
    const words = make("p", "words");
    const kinds = { old: "from the cache", new: "new here", picked: "just picked", to: "to come" };
    const key = Object.entries(kinds).map(([kind, name]) =>
      box("span", "", make("i", kind), ` ${name}`),
    );
    const outlined = box("span", "", make("i", "to prompt"), " prompt");
    const title = make("h4", "", "Mask and KV cache, one column a token");
    const node = box("section", "cache", title, strip, box("p", "key", ...key, outlined), words);
    function show(n) {
      const seen = n ? run.steps[n - 1].mask_length : 0;
      const old = n ? seen - run.steps[n - 1].input_shape[1] : 0;
      cells.forEach((cell, column) => {
        cell.classList.toggle("old", column < old);
        cell.classList.toggle("new", column >= old && column < seen);
        cell.classList.toggle("picked", n > 0 && column === seen);
        cell.classList.toggle("to", column > seen || (!n && column === seen));
      });
      words.textContent = n
        ? `${count(seen, "column")} seen: ${old} from the cache, ${seen - old} new.`
        : "Nothing is seen yet, and the cache is empty.";
      strip.setAttribute("aria-label", words.textContent);
    }
    return { node, show };
  }

  /** The best candidates as bars; the token taken stands below, also where it is none of them. */
  function candidatesView(run) {
    const most = Math.max(...run.steps.map((step) => step.candidates.length));
    const rows = Array.from({ length: most }, candidateRow);
    const taken = make("p", "words");
    const title = make("h4", "", "Best candidates for the next token");
    const node = box("section", "candidates", title, box("ol", "", ...rows.map((r) => r.node)), taken);
    function show(n) {
      const step = n ? run.steps[n - 1] : { candidates: [] };
      rows.forEach((row, index) => row.show(step.candidates[index], step.candidates));
      const scores = n && step.candidates.some((one) => one.probability === null);
      taken.textContent = !n
        ? "No scores before the first forward."
        : `Token ${n} is ${quoted(step.token)}, id ${step.token.id}.${scores ? " Logits: no probabilities in this record." : ""}`;
    }
    return { node, show };
  }

  /** One candidate: its text, a bar, a number, and a sign if it was taken. */
  function candidateRow() {
    const name = make("bdi", "name");
    const bar = make("span", "bar");
    const number = make("span", "number");
    const sign = make("span", "sign");
    const node = box("li", "", sign, name, box("span", "track", bar), number);
    function show(one, all) {
      node.classList.toggle("chosen", Boolean(one && one.chosen));
      name.textContent = one ? one.text : "";
      name.title = one ? `id ${one.id}` : "";
      sign.textContent = one && one.chosen ? "✓" : "";
      const known = one && one.probability !== null;
      number.textContent = !one ? "" : known ? percent(one.probability) : one.logit.toFixed(2);
      bar.style.width = known ? `${100 * Math.min(1, one.probability)}%` : "0";
    }
    return { node, show };
  }

  /** Every forward as wide as it took: prefill, then decode. */
  function timeView(run) {
    const bars = run.steps.map((step) => {
      const bar = make("i", step.phase);
      bar.style.flexGrow = Math.max(step.seconds, 1e-9);
      return bar;
    });
    const strip = box("div", "time", ...bars);
    const tpot = run.tpot_s === null ? "no decode" : `TPOT ${duration(run.tpot_s)}, a decode step on average`;
    const words = [make("span", "", `TTFT ${duration(run.ttft_s)}, prefill`), make("span", "", tpot)];
    const title = make("h4", "", "Prefill and decode on the clock, to scale");
    const node = box("section", "clock", title, strip, box("p", "words ends", ...words));
    strip.setAttribute("role", "img");
    function show(n) {
      bars.forEach((bar, index) => {
        bar.classList.toggle("to", index >= n);
        bar.classList.toggle("here", index === n - 1);
      });
      const done = run.steps.slice(0, n).reduce((sum, step) => sum + step.seconds, 0);
      strip.setAttribute("aria-label", `${duration(done)} after ${count(n, "forward")}`);
    }
    return { node, show };
  }

  /** What happens at a step, in a sentence or two. */
  function tell(run, n) {
    if (!n) {
      return `Ready: a prompt of ${count(run.length, "token")}. Nothing has run yet. Step forward.`;
    }
    const { token, pending } = run.steps[n - 1];
    const made = `token ${n}, ${quoted(token)}`;
    const first = `Prefill: the whole prompt goes in at once. The last row of logits gives ${made}.`;
    const later = n > 1 && `Decode: token ${n - 1}, ${quoted(run.steps[n - 2].token)}, goes in alone. Out comes ${made}.`;
    const part = pending ? " Its character is not whole yet." : "";
    return (n === 1 ? first : later) + part + (n === run.steps.length ? ` ${ending(run)}` : "");
  }

  /** Why the run is over. */
  function ending(run) {
    return run.ended_by_eos
      ? "End: it is an end-of-sequence token."
      : `End: the limit of ${count(run.max_new_tokens, "new token")} is reached.`;
  }

  /** The prompt's tokens with their ids, folded. */
  function promptView(run) {
    const items = run.prompt_tokens.map((token) => {
      const name = make("bdi", "", token.text);
      return box("li", token.partial ? "partial" : "", name, make("small", "", String(token.id)));
    });
    const summary = make("summary", "", `The ${count(run.length, "prompt token")}, with ids`);
    return { node: box("details", "prompt", summary, box("ol", "", ...items)), show() {} };
  }

  const views = [textView, factsView, cacheView, candidatesView, timeView, promptView];
  Object.assign(course, { playerParts: { make, box, views, tell } });
})(globalThis.insideGenerate);
