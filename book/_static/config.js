/**
 * Reads a model's `config.json` for the calculators: its sizes, or one line that says why not.
 *
 * A config whose cache is not "keys and values of every position, in every layer" is refused, since
 * the formulas would give a wrong number for it. Knows nothing of bytes and nothing of a page.
 */
"use strict";

(() => {
  const LARGEST = 10_000_000; // a size above it is a slip, and products stay readable
  const LONGEST_TEXT = 1_000_000;
  const NAMES = {
    layers: ["num_hidden_layers", "n_layer"],
    heads: ["num_attention_heads", "n_head"],
    hidden: ["hidden_size", "n_embd"],
    vocab: ["vocab_size"],
    inner: ["intermediate_size"],
    kvHeads: ["num_key_value_heads"],
    headDim: ["head_dim"],
  };
  // Families with a gated MLP, whose weights the arithmetic knows to the last number.
  const WEIGHED = ["llama", "mistral", "qwen2", "qwen3"];
  // Families that keep keys and values of every position in every layer.
  const DENSE = [...WEIGHED, "gpt2", "gpt_neox", "mixtral", "olmo2", "phi"];
  // What the library fills in with a number of its own where a config leaves it out.
  const FILLED_IN = {
    mistral: ["num_key_value_heads", "sliding_window"],
    mixtral: ["num_key_value_heads"],
    qwen2: ["num_key_value_heads"],
    qwen3: ["num_key_value_heads", "head_dim"],
  };
  // Families whose window is off until `use_sliding_window` turns it on.
  const WINDOW_OFF = ["qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3"];
  // Families whose models read a text at once, or again for each token.
  const NO_CACHE = ["albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra",
    "modernbert", "mpnet", "openai-gpt", "roberta", "xlm-roberta"];
  // Other names for the size of a head, or of its values alone.
  const HEAD_SIZES = ["kv_channels", "head_size", "attention_head_size", "d_kv", "v_head_dim"];
  // A list that names the kind of each layer, and the words in it for all positions.
  const KINDS = ["layer_types", "layers_block_type"];
  const ALL_POSITIONS = ["full_attention", "attention"];
  const OTHER_CACHES = [
    [["kv_lora_rank"], "keeps compressed keys and values (MLA)"],
    [
      ["multi_query", "num_kv_heads", "multi_query_group_num", "num_attention_groups",
        "n_head_kv", "n_kv_head", "n_kv_heads", "n_query_groups", "num_query_groups"],
      "names its KV heads otherwise",
    ],
    [["block_configs", "num_key_value_heads_per_layer"], "has other heads from layer to layer"],
    [["num_kv_shared_layers", "use_cla", "cla_share_factor"], "shares keys and values between layers"],
    [["attention_chunk_size", "local_attention"], "sees only a part of the text in some layers"],
    [
      ["block_types", "hybrid_override_pattern", "full_attention_interval",
        "attn_layer_period", "attn_type_list", "full_attn_idxs", "attn_layer_indices",
        "mamba_d_state", "linear_num_key_heads", "cross_attention_layers"],
      "mixes attention with layers that have another state or none",
    ],
    [["is_encoder_decoder"], "has an encoder beside its decoder"],
  ];

  /** A value as it was given, short enough for a line. */
  function shown(value) {
    if ([Infinity, -Infinity].includes(value)) return "a number beyond all sizes"; // no word in JSON
    const text = JSON.stringify(value) ?? String(value);
    return text.length > 40 ? `${text.slice(0, 39)}…` : text;
  }

  function parse(text) {
    if (!text.trim()) throw new Error("Nothing to read: paste the content of a config.json.");
    if (text.length > LONGEST_TEXT) {
      throw new Error("This is too long for a config.json: paste that one file alone.");
    }
    let config;
    try {
      // Python writes an endless number as a bare word, which JSON has not.
      const bare = /("(?:[^"\\]|\\.)*")|\b(?:Infinity|NaN)\b/g;
      config = JSON.parse(text.trim().replace(bare, (_, quoted) => quoted ?? "1e999"));
    } catch {
      throw new Error("This is no JSON: paste the whole file, from { to }.");
    }
    if (config === null || typeof config !== "object" || Array.isArray(config)) {
      throw new Error(`A config.json is an object in braces, not ${shown(config)}.`);
    }
    return config;
  }

  /** The language model's part: some configs of larger models hold it one level down, with all its sizes. */
  function languagePart(config) {
    const inner = config.text_config;
    const nested = inner !== null && typeof inner === "object" && !Array.isArray(inner);
    if (!nested) return { config, nested };
    const others = Object.entries(config).filter(([name]) => !Object.values(NAMES).flat().includes(name));
    return { config: { ...Object.fromEntries(others), ...inner }, nested };
  }

  /** The kind of each layer, by the lists that name them; empty where there is none. */
  function layerKinds(config) {
    const names = KINDS.filter((one) => config[one] !== undefined && config[one] !== null);
    return names.flatMap((name) => {
      const kinds = config[name];
      if (!Array.isArray(kinds)) throw new Error(`${name} must be a list, not ${shown(kinds)}.`);
      const layers = size(config, "layers") ?? kinds.length;
      if (kinds.length === layers) return kinds;
      throw new Error(`${name} must name each of the ${layers} layers, not ${kinds.length}.`);
    });
  }

  /** Settings of another cache that stand in a config and that nothing uses. */
  function unused(config, kinds) {
    return [
      ...(config.use_cla === false ? ["cla_share_factor"] : []),
      ...(kinds.length ? ["mamba_d_state"] : []), // no layer is of that kind
      ...([config.attn_type_list].flat().every((one) => one === 1) ? ["attn_type_list"] : []), // all of attention
    ];
  }

  /** Whether a window is at work. Of the families known here those of `WINDOW_OFF` alone have a switch. */
  function hasWindow(config) {
    const { model_type: type, sliding_window: window, use_sliding_window: used } = config;
    if (!window) return false;
    if (WINDOW_OFF.includes(type)) return Boolean(used);
    return DENSE.includes(type) || used !== false;
  }

  /** Why the cache of this config is another one, or "". */
  function otherCache(config) {
    if (NO_CACHE.includes(config.model_type)) return "keeps no keys and values from token to token";
    const kinds = layerKinds(config);
    const other = kinds.find((kind) => !ALL_POSITIONS.includes(kind));
    if (other !== undefined) return `has layers of the kind ${shown(other)}`;
    const idle = unused(config, kinds);
    const set = (name) => config[name] && !idle.includes(name);
    const found = OTHER_CACHES.find(([names]) => names.some(set));
    if (found) return found[1];
    const window = shown(config.sliding_window);
    return hasWindow(config) ? `keeps only a window of ${window} positions` : "";
  }

  /** A size by any of its names; null where there is none. */
  function size(config, key) {
    const name = NAMES[key].find((one) => config[one] !== undefined && config[one] !== null);
    if (name === undefined) return null;
    const value = config[name];
    if (!Number.isInteger(value) || value < 1 || value > LARGEST) {
      throw new Error(`${name} must be a whole number from 1 to ${LARGEST.toLocaleString("en")}, not ${shown(value)}.`);
    }
    return value;
  }

  function needed(config, key) {
    const value = size(config, key);
    if (value !== null) return value;
    throw new Error(`The config has no ${NAMES[key][0]}, which the formula needs.`);
  }

  function checkComplete(config) {
    const type = word(config.model_type);
    const names = Object.hasOwn(FILLED_IN, type) ? FILLED_IN[type] : [];
    const missing = names.find((name) => config[name] === undefined);
    if (!missing) return;
    throw new Error(`A ${type} config has to say ${missing}: left out, the library fills in a number of its own.`);
  }

  function headSize(config, hidden, heads) {
    const explicit = size(config, "headDim");
    if (explicit === null && hidden % heads) {
      throw new Error(`A hidden size of ${hidden} cannot be cut into ${heads} heads, and no head_dim is given.`);
    }
    const found = explicit ?? hidden / heads;
    const other = HEAD_SIZES.find((name) => config[name] && config[name] !== found);
    if (other) throw new Error(`${other} is ${shown(config[other])}, and the size of a head would be ${found}: no number is given.`);
    return found;
  }

  function checkShares(heads, kvHeads) {
    if (heads % kvHeads) throw new Error(`${heads} query heads cannot be shared out evenly to ${kvHeads} KV heads.`);
  }

  /** A switch; left out, it is off. */
  function flag(config, name) {
    const value = config[name] ?? false;
    if (typeof value === "boolean") return value;
    throw new Error(`${name} must be true or false, not ${shown(value)}.`);
  }

  /** A name from the config; "" for what is no text. */
  function word(value) {
    return typeof value === "string" ? value : "";
  }

  /** What the weights and the activations need beyond the cache; null for an unknown family. */
  function weightSizes(config) {
    if (!WEIGHED.includes(config.model_type)) return null;
    const biased = config.model_type === "llama" || config.model_type === "qwen3";
    const bias = biased && flag(config, "attention_bias");
    return {
      vocab: needed(config, "vocab"),
      inner: needed(config, "inner"),
      tied: flag(config, "tie_word_embeddings"),
      qkvBias: bias || config.model_type === "qwen2",
      outputBias: bias,
      mlpBias: config.model_type === "llama" && flag(config, "mlp_bias"),
      headNorms: config.model_type === "qwen3",
    };
  }

  function notes(config, nested) {
    const found = [];
    if (nested) found.push("This is the language part of a larger model (text_config); the rest is left out.");
    if (!DENSE.includes(config.model_type)) {
      const type = word(config.model_type) || "without a name";
      const own = config.num_key_value_heads === undefined ? ", and each query head has a KV head of its own" : "";
      found.push(
        `A model type that this page does not know (${shown(type)}): the cache is right only if every layer keeps keys and values of every position${own}.`,
      );
    }
    if (config.quantization_config) {
      found.push("The checkpoint is quantised: choose how many bits its weights have; scales are not counted.");
    }
    return found;
  }

  /**
   * Read a config. Throws an Error whose message is one line for the reader.
   * @param {string} text the content of a config.json
   * @returns {{sizes: object, weighed: boolean, dtype: string, type: string, notes: string[]}}
   */
  function readConfig(text) {
    const { config, nested } = languagePart(parse(text));
    const why = otherCache(config);
    if (why) throw new Error(`This model ${why}. The formulas here are not made for that, so no number is given.`);
    checkComplete(config);
    const [layers, heads, hidden] = ["layers", "heads", "hidden"].map((key) => needed(config, key));
    const kvHeads = size(config, "kvHeads") ?? heads;
    checkShares(heads, kvHeads);
    const more = weightSizes(config);
    return {
      sizes: { layers, heads, hidden, kvHeads, headDim: headSize(config, hidden, heads), ...more },
      weighed: more !== null,
      dtype: word(config.dtype ?? config.torch_dtype),
      type: word(config.model_type) || "without a name",
      notes: notes(config, nested),
    };
  }

  globalThis.insideGenerate = globalThis.insideGenerate || {};
  globalThis.insideGenerate.config = { DENSE, FILLED_IN, NO_CACHE, WEIGHED, WINDOW_OFF, readConfig, shown };
})();
