/**
 * `dashboard-PORT.json` and `inspector-PORT.json` in the data directory, by which other commands of the same user get new links to a page that is
 * already served.
 *
 * The file is owner-only. Its secret is good for new codes alone, and ends with the process.
 */
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { requestText } from '../../client/host-request.ts'
import { sendByNode } from '../../client/node-http.ts'
import { dialByNode } from '../../client/node-socket.ts'
import { replaceFile } from '../../store/files/atomic.ts'
import { CODE_PATH, linkTo } from '../../transport/pages/page-sessions.ts'
import type { PageKind } from './page-kinds.ts'

interface PageRecord {
  readonly pid: number
  readonly secret: string
}

const LIMIT = { timeoutMs: 5_000 }
const CODE = /^[\w-]{22}$/
type PageName = PageKind['name']

const pathIn = (dataDir: string, page: PageName, port: number): string =>
  join(dataDir, `${page}-${port}.json`)

export async function writePageRecord(
  dataDir: string,
  page: PageName,
  port: number,
  secret: string,
): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const record: PageRecord = { pid: process.pid, secret }
  await replaceFile(pathIn(dataDir, page, port), `${JSON.stringify(record)}\n`)
}

/** Call it before the port is free, because the file of the next page has the same name. */
export async function removePageRecord(dataDir: string, page: PageName, port: number): Promise<void> {
  await rm(pathIn(dataDir, page, port), { force: true })
}

/** A new link to the page on this port, or to another page of this data directory; undefined when none is served. */
export async function askForLink(dataDir: string, page: PageName, port: number): Promise<string | undefined> {
  const file = new RegExp(`^${page}-(\\d{1,5})\\.json$`)
  const names = await readdir(dataDir).catch(() => [])
  const others = names.flatMap((name) => file.exec(name)?.[1] ?? []).map(Number)
  for (const served of new Set([port, ...others])) {
    const code = await askForCode(dataDir, page, served).catch(() => undefined)
    if (typeof code === 'string' && CODE.test(code)) return linkTo(served, code)
  }
  return undefined
}

/** Throws for a page that is gone: its port may belong to a program of somebody else. */
async function askForCode(dataDir: string, page: PageName, port: number): Promise<unknown> {
  const file = pathIn(dataDir, page, port)
  const { pid, secret } = JSON.parse(await readFile(file, 'utf8')) as PageRecord
  process.kill(pid, 0)
  const owner = { users: [(await stat(file)).uid] }
  const address = () => ({ url: `http://127.0.0.1:${port}`, token: secret, owner })
  const connection = { address, send: sendByNode, dial: dialByNode }
  const { text } = await requestText(connection, { method: 'POST', path: CODE_PATH }, LIMIT)
  return Reflect.get(Object(JSON.parse(text)), 'code')
}
