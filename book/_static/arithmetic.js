/**
 * The book's arithmetic of bytes, operations and seconds, as pure functions without a page.
 *
 * What a config says is read by `config.js`; the page around it is `calculators.js`. Counts are
 * BigInt, so they are exact however large; seconds and rates are numbers. Each function does what
 * the function of the same name in the package `inside_generate` does, and a test holds them together.
 */
"use strict";

(() => {
  const FORMATS = { float32: 4, bfloat16: 2, float16: 2, "8-bit": 1 }; // bytes per number
  const big = BigInt;

  /** Bytes of keys and values: 2 · layers · KV heads · head size · B · L · bytes per number. */
  function kvCacheBytes(sizes, length, batch, bytesEach) {
    const numbers = 2n * big(sizes.layers) * big(sizes.kvHeads) * big(sizes.headDim);
    return numbers * big(length) * big(batch) * big(bytesEach);
  }

  /** The same model with a KV head for each query head. */
  function asMha(sizes) {
    return { ...sizes, kvHeads: sizes.heads };
  }

  /** Bytes of logits for `length` positions of `batch` rows. */
  function logitsBytes(sizes, length, batch, bytesEach) {
    return big(batch) * big(length) * big(sizes.vocab) * big(bytesEach);
  }

  /** How many numbers one layer's matrices hold: Q, K, V, output, and the three of the MLP. */
  function layerMatrixNumbers(sizes) {
    const width = 2n * big(sizes.headDim) * (big(sizes.heads) + big(sizes.kvHeads));
    return big(sizes.hidden) * (width + 3n * big(sizes.inner));
  }

  /** How many numbers one layer holds beside its matrices: biases and norms. */
  function layerVectorNumbers(sizes) {
    const query = big(sizes.heads) * big(sizes.headDim);
    const keyValue = 2n * big(sizes.kvHeads) * big(sizes.headDim);
    const hidden = big(sizes.hidden);
    return (
      2n * hidden +
      (sizes.qkvBias ? query + keyValue : 0n) +
      (sizes.outputBias ? hidden : 0n) +
      (sizes.mlpBias ? 2n * big(sizes.inner) + hidden : 0n) +
      (sizes.headNorms ? 2n * big(sizes.headDim) : 0n)
    );
  }

  /** How many numbers the weights hold; a tied matrix counts once. */
  function parameterCount(sizes) {
    const layer = layerMatrixNumbers(sizes) + layerVectorNumbers(sizes);
    const tables = (sizes.tied ? 1n : 2n) * big(sizes.vocab) * big(sizes.hidden);
    return tables + big(sizes.layers) * layer + big(sizes.hidden);
  }

  /** Bytes of all weights. */
  function weightBytes(sizes, bytesEach) {
    return parameterCount(sizes) * big(bytesEach);
  }

  /** Logits and activations, in bytes, at the peak of a prefill of one prompt. */
  function prefillExtra(sizes, length, bytesEach, logitsRows) {
    const token = big(3 * sizes.inner + 4 * sizes.hidden) * big(bytesEach);
    const logits = logitsBytes(sizes, logitsRows, 1, bytesEach);
    const hidden = big(length) * big(sizes.hidden) * big(bytesEach);
    const inMlp = big(length) * token;
    return inMlp >= logits + hidden
      ? { logits: 0n, activations: inMlp }
      : { logits, activations: hidden };
  }

  /** How many rows of a context fit beside the weights, with a share of the memory kept free. */
  function rowsInMemory(memoryBytes, spare, weights, rowBytes) {
    const room = memoryBytes * (1 - spare) - Number(weights);
    const row = Number(rowBytes);
    return room > 0 ? Math.round((room - (room % row)) / row) : 0;
  }

  /** Operations with weights: all layers for `tokens`, the output matrix for `logitsRows`. */
  function matrixFlops(sizes, tokens, logitsRows) {
    const layers = 2n * big(tokens) * big(sizes.layers) * layerMatrixNumbers(sizes);
    return layers + 2n * big(logitsRows) * big(sizes.hidden) * big(sizes.vocab);
  }

  /** Operations between tokens, for a number of pairs of a query and a key. */
  function attentionFlops(sizes, pairs) {
    return 4n * big(sizes.layers) * big(sizes.heads) * big(sizes.headDim) * big(pairs);
  }

  /** Operations of a prefill with one row of logits; pairs that the mask hides are left out. */
  function prefillFlops(sizes, length) {
    const pairs = (big(length) * (big(length) + 1n)) / 2n;
    return matrixFlops(sizes, length, 1) + attentionFlops(sizes, pairs);
  }

  /** Bytes of weights that one forward over `tokens` inputs reads. */
  function stepWeightBytes(sizes, tokens, bytesEach) {
    const rows = tokens < sizes.vocab ? tokens : sizes.vocab;
    const unread = sizes.tied ? 0n : (big(sizes.vocab) - big(rows)) * big(sizes.hidden);
    return weightBytes(sizes, bytesEach) - unread * big(bytesEach);
  }

  /** Bytes that a prefill moves: weights once, keys and values as they are written. */
  function prefillBytes(sizes, length, batch, bytesEach) {
    const cached = kvCacheBytes(sizes, length, batch, bytesEach);
    return stepWeightBytes(sizes, length * batch, bytesEach) + cached;
  }

  /** Cached columns that the decode steps of one answer read: (T − 1)·L + T·(T − 1)/2. */
  function kvReads(promptTokens, newTokens) {
    const steps = big(newTokens) - 1n;
    return steps * big(promptTokens) + (steps * (steps + 1n)) / 2n;
  }

  /** Bytes that all decode steps of a batch of answers read together. */
  function decodeBytes(sizes, promptTokens, newTokens, batch, bytesEach) {
    const weights = big(newTokens - 1) * stepWeightBytes(sizes, batch, bytesEach);
    return weights + kvCacheBytes(sizes, kvReads(promptTokens, newTokens), batch, bytesEach);
  }

  /** Operations of all decode steps of a batch of answers. */
  function decodeFlops(sizes, promptTokens, newTokens, batch) {
    const matrices = big(newTokens - 1) * matrixFlops(sizes, 1, 1);
    const pairs = kvReads(promptTokens, newTokens);
    return big(batch) * (matrices + attentionFlops(sizes, pairs));
  }

  /** The least seconds for the work, and which ceiling says so. */
  function leastSeconds(flops, bytes, machine) {
    const arithmetic = Number(flops) / (machine.gflopPerS * 1e9);
    const reading = Number(bytes) / (machine.gbPerS * 1e9);
    return arithmetic > reading
      ? { seconds: arithmetic, bound: "arithmetic" }
      : { seconds: reading, bound: "reading" };
  }

  /**
   * Floors of a run's times. An answer of one token has no time per token: `tpot` is null.
   * @param {{promptTokens: number, newTokens: number, batch: number, bytesEach: number}} run
   * @param {{gbPerS: number, gflopPerS: number}} machine
   */
  function runFloors(sizes, run, machine) {
    const { promptTokens, newTokens, batch, bytesEach } = run;
    const flops = big(batch) * prefillFlops(sizes, promptTokens);
    const bytes = prefillBytes(sizes, promptTokens, batch, bytesEach);
    const ttft = leastSeconds(flops, bytes, machine);
    if (newTokens === 1) return { ttft, tpot: null, totalS: ttft.seconds, tokensPerS: null };
    const all = leastSeconds(
      decodeFlops(sizes, promptTokens, newTokens, batch),
      decodeBytes(sizes, promptTokens, newTokens, batch, bytesEach),
      machine,
    );
    const tpot = { seconds: all.seconds / (newTokens - 1), bound: all.bound };
    const totalS = ttft.seconds + all.seconds;
    return { ttft, tpot, totalS, tokensPerS: batch / tpot.seconds };
  }

  globalThis.insideGenerate = globalThis.insideGenerate || {};
  globalThis.insideGenerate.arithmetic = {
    FORMATS,
    asMha,
    attentionFlops,
    decodeBytes,
    decodeFlops,
    kvCacheBytes,
    kvReads,
    layerMatrixNumbers,
    logitsBytes,
    parameterCount,
    prefillBytes,
    prefillExtra,
    prefillFlops,
    rowsInMemory,
    runFloors,
    stepWeightBytes,
    weightBytes,
  };
})();
