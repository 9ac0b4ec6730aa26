/**
 * The files of a page, read once, with the headers that each is served with.
 *
 * A file is found by its exact path, so no path can lead out of the folder.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join, relative, sep } from 'node:path'
import type { ListenerResponse } from '../listener-port.ts'
import type { Headers } from '../reply.ts'

export interface PageFile {
  readonly bytes: Uint8Array
  readonly headers: Headers
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.json': 'application/json',
  '.webmanifest': 'application/manifest+json',
}

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "manifest-src 'self'",
  "worker-src 'self'",
  "frame-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** The terminal's library writes styles into the document, and a page of the same origin shows it in a frame. */
const TERMINAL = 'terminal.html'
const TERMINAL_POLICY = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'").replace(
  "frame-ancestors 'none'",
  "frame-ancestors 'self'",
)

const HEADERS: Headers = [
  ['x-content-type-options', 'nosniff'],
  ['referrer-policy', 'no-referrer'],
  ['cross-origin-opener-policy', 'same-origin'],
  ['cross-origin-resource-policy', 'same-origin'],
]
/** The name of a file in this folder changes with its content. */
const HASHED_FOLDER = 'assets/'

export class PageFiles {
  readonly #files = new Map<string, PageFile>()
  readonly #document: PageFile | undefined

  /** @param folder with `index.html`, the document of every path that is no file */
  constructor(folder: string) {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue
      const path = join(entry.parentPath, entry.name)
      const name = relative(folder, path).split(sep).join('/')
      this.#files.set(`/${name}`, { bytes: readFileSync(path), headers: headersOf(name) })
    }
    this.#document = this.#files.get('/index.html')
  }

  /** A missing file with the name of one is missing; every other path is a place of the page. */
  find(path: string): PageFile | undefined {
    const file = this.#files.get(path)
    if (file !== undefined) return file
    return path.startsWith(`/${HASHED_FOLDER}`) || /\.[a-z]+$/.test(path) ? undefined : this.#document
  }
}

function headersOf(name: string): Headers {
  return [
    ['content-type', TYPES[extname(name)] ?? 'application/octet-stream'],
    ['cache-control', name.startsWith(HASHED_FOLDER) ? 'public, max-age=31536000, immutable' : 'no-cache'],
    ['content-security-policy', name === TERMINAL ? TERMINAL_POLICY : POLICY],
    ...HEADERS,
  ]
}

/** @param isWithoutBody the answer to HEAD */
export function writeFile(
  response: ListenerResponse,
  { bytes, headers }: PageFile,
  isWithoutBody: boolean,
): void {
  for (const [name, value] of headers) response.writeHeader(name, value)
  if (!isWithoutBody) {
    response.end(bytes)
    return
  }
  response.writeHeader('content-length', String(bytes.byteLength))
  response.endWithoutBody()
}
