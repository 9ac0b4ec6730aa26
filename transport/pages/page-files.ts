/**
 * The files of a page, read once, with the headers that each is served with.
 *
 * A file is found by its exact path, so no path can lead out of the folder. The build puts compressed forms beside a
 * file (`app.js.br`, `app.js.gz`); they are sent in the file's place to a browser that takes them, each with an ETag of
 * its own, and are no files by themselves.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join, relative, sep } from 'node:path'
import type { ListenerResponse } from '../listener-port.ts'
import { type Headers, statusLine } from '../reply.ts'
import { chooseEncoding, type Encoding } from '../reply-compressor.ts'
import type { RequestHead } from '../request-head.ts'

export interface PageFile {
  readonly plain: FileForm
  readonly compressed: ReadonlyMap<Encoding, FileForm>
  readonly headers: Headers
}

/** The bytes of a file in one encoding. */
interface FileForm {
  readonly bytes: Uint8Array
  readonly etag: string
}

const COMPRESSED_NAME = /^(.+)\.(br|gz)$/
const ENCODING_OF = { br: 'br', gz: 'gzip' } as const satisfies Record<string, Encoding>

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
  ['cross-origin-resource-policy', 'same-origin'],
]
/** Headers of documents and workers alone. A page loads dozens of small scripts, and these lines are longer than most of them. */
const DOCUMENT_HEADERS: Headers = [
  ['referrer-policy', 'no-referrer'],
  ['cross-origin-opener-policy', 'same-origin'],
]
/** Scripts and styles that documents load. The name of a file in this folder changes with its content. */
const HASHED_FOLDER = 'assets/'
const FOR_EVER = 'public, max-age=31536000, immutable'

export class PageFiles {
  readonly #files = new Map<string, PageFile>()
  readonly #document: PageFile | undefined

  /** @param folder with `index.html`, the document of every path that is no file */
  constructor(folder: string) {
    const forms = new Map<string, FileForm>()
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue
      const path = join(entry.parentPath, entry.name)
      forms.set(relative(folder, path).split(sep).join('/'), readForm(path))
    }
    for (const [name, plain] of forms) {
      const [, original = ''] = COMPRESSED_NAME.exec(name) ?? []
      if (forms.has(original)) continue
      this.#files.set(`/${name}`, {
        plain,
        compressed: compressedForms(forms, name),
        headers: headersOf(name),
      })
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

function readForm(path: string): FileForm {
  const bytes = readFileSync(path)
  return { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"` }
}

function compressedForms(forms: ReadonlyMap<string, FileForm>, name: string): Map<Encoding, FileForm> {
  const found = new Map<Encoding, FileForm>()
  for (const [extension, encoding] of Object.entries(ENCODING_OF)) {
    const form = forms.get(`${name}.${extension}`)
    if (form !== undefined) found.set(encoding, form)
  }
  return found
}

function headersOf(name: string): Headers {
  const type = ['content-type', TYPES[extname(name)] ?? 'application/octet-stream'] as const
  if (name.startsWith(HASHED_FOLDER)) return [type, ['cache-control', FOR_EVER], ...HEADERS]
  return [
    type,
    ['cache-control', 'no-cache'],
    ['content-security-policy', name === TERMINAL ? TERMINAL_POLICY : POLICY],
    ...HEADERS,
    ...DOCUMENT_HEADERS,
  ]
}

/** Answers GET and HEAD with the file in the smallest encoding that the browser takes, or with 304. */
export function writeFile(
  response: ListenerResponse,
  { plain, compressed, headers }: PageFile,
  { method, acceptEncoding, ifNoneMatch }: RequestHead,
): void {
  const encoding = chooseEncoding(acceptEncoding, [...compressed.keys()])
  const { bytes, etag } = (encoding === undefined ? undefined : compressed.get(encoding)) ?? plain
  const isUnchanged = matches(ifNoneMatch, etag)
  if (isUnchanged) response.writeStatus(statusLine(304))
  for (const [name, value] of headers) response.writeHeader(name, value)
  response.writeHeader('etag', etag)
  if (compressed.size > 0) response.writeHeader('vary', 'accept-encoding')
  if (encoding !== undefined && !isUnchanged) response.writeHeader('content-encoding', encoding)
  if (method !== 'HEAD' && !isUnchanged) {
    response.end(bytes)
    return
  }
  if (!isUnchanged) response.writeHeader('content-length', String(bytes.byteLength))
  response.endWithoutBody()
}

/** The weak comparison of RFC 9110 §13.1.2. */
const matches = (ifNoneMatch: string, etag: string): boolean =>
  ifNoneMatch.split(',').some((item) => ['*', etag, `W/${etag}`].includes(item.trim()))
