// Packs `dist` into the archive that the gateway embeds. The bytes depend only on the files: names are sorted, times and
// owners are 0.
//
//     node pack.ts OUT            writes the archive
//     node pack.ts --check FILE   fails if FILE does not match the sources
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { deflateRawSync, gunzipSync, crc32 } from "node:zlib";

const BLOCK = 512;

function filesUnder(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .flatMap((entry) => (entry.isDirectory() ? filesUnder(join(folder, entry.name)) : [join(folder, entry.name)]))
    .sort();
}

/** A ustar header: https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html */
function header(name: string, size: number): Buffer {
  if (Buffer.byteLength(name) > 100) throw new Error(`${name}: name is longer than 100 bytes`);
  const block = Buffer.alloc(BLOCK);
  block.write(name, 0);
  block.write("0000644\0", 100);
  block.write("0000000\0", 108);
  block.write("0000000\0", 116);
  block.write(`${size.toString(8).padStart(11, "0")}\0`, 124);
  block.write("00000000000\0", 136);
  block.write("        ", 148);
  block.write("0", 156);
  block.write("ustar\0" + "00", 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

function tar(folder: string): Buffer {
  const parts: Buffer[] = [];
  const names = filesUnder(folder).map((path) => relative(folder, path).split(sep).join("/"));
  for (const name of names.sort()) {
    const content = readFileSync(join(folder, name));
    parts.push(header(name, content.length), content, Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK));
  }
  parts.push(Buffer.alloc(2 * BLOCK));
  return Buffer.concat(parts);
}

/** gzip with a zeroed header: no file name, no timestamp, unknown operating system. */
function gzip(data: Buffer): Buffer {
  const head = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255]);
  const tail = Buffer.alloc(8);
  tail.writeUInt32LE(crc32(data) >>> 0, 0);
  tail.writeUInt32LE(data.length >>> 0, 4);
  return Buffer.concat([head, deflateRawSync(data, { level: 9 }), tail]);
}

const [first, second] = process.argv.slice(2);
const archive = tar("dist");
if (first === "--check" && second) {
  // Compare uncompressed: Node releases compress the same bytes differently.
  const kept = gunzipSync(readFileSync(second));
  if (!kept.equals(archive)) {
    console.error(`${second} is not what portal/ gives: run 'make portal' and commit the archive`);
    process.exit(1);
  }
  console.log(`${second} is what portal/ gives, byte for byte`);
} else if (first) {
  const packed = gzip(archive);
  writeFileSync(first, packed);
  console.log(`${first}: ${packed.length.toLocaleString("en")} bytes`);
} else {
  console.error("usage: pack OUT | pack --check FILE");
  process.exit(2);
}
