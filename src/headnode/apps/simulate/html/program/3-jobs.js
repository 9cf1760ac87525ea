// Every job, out of its packing.

async function unpacked({ type, data }) {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const content = await new Response(stream).arrayBuffer();
  if (type === "Text") return new TextDecoder().decode(content).split("\n");
  return new { Int32: Int32Array, Float64: Float64Array }[type](content);
}

async function unpackedColumns(columns) {
  const found = {};
  for (const [name, column] of Object.entries(columns)) found[name] = typeof column === "string" ? column : await unpacked(column);
  return found;
}
