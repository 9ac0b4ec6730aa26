/**
 * Derives an artifact's content type from its name. Types in which a browser would run scripts of our origin are
 * marked as downloads.
 */
const TYPES: Readonly<Record<string, string>> = {
  avif: 'image/avif',
  bmp: 'image/bmp',
  css: 'text/css; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
  diff: 'text/x-diff; charset=utf-8',
  gif: 'image/gif',
  gz: 'application/gzip',
  htm: 'text/html; charset=utf-8',
  html: 'text/html; charset=utf-8',
  ico: 'image/x-icon',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json',
  jsonl: 'application/jsonl; charset=utf-8',
  log: 'text/plain; charset=utf-8',
  md: 'text/markdown; charset=utf-8',
  mjs: 'text/javascript; charset=utf-8',
  mov: 'video/quicktime',
  mp3: 'audio/mpeg',
  mp4: 'video/mp4',
  patch: 'text/x-diff; charset=utf-8',
  pdf: 'application/pdf',
  png: 'image/png',
  svg: 'image/svg+xml',
  tar: 'application/x-tar',
  tgz: 'application/gzip',
  toml: 'application/toml',
  ts: 'text/plain; charset=utf-8',
  tsv: 'text/tab-separated-values; charset=utf-8',
  txt: 'text/plain; charset=utf-8',
  wasm: 'application/wasm',
  wav: 'audio/wav',
  webm: 'video/webm',
  webp: 'image/webp',
  xhtml: 'application/xhtml+xml',
  xml: 'application/xml',
  yaml: 'application/yaml',
  yml: 'application/yaml',
  zip: 'application/zip',
}
const UNKNOWN = 'application/octet-stream'
/** Types in which a browser would run scripts. */
const ACTIVE = /html|xml|svg|javascript|pdf/

export function contentTypeOf(name: string): { readonly contentType: string; readonly download: boolean } {
  const ending = /\.([A-Za-z0-9]+)$/.exec(name)?.[1]?.toLowerCase() ?? ''
  const contentType = (Object.hasOwn(TYPES, ending) ? TYPES[ending] : undefined) ?? UNKNOWN
  return { contentType, download: contentType === UNKNOWN || ACTIVE.test(contentType) }
}
