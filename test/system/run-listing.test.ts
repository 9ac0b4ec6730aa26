/**
 * `GET /api/runs` of a host with thousands of finished runs: the answer is all pages in order, and the host's memory
 * stays bounded however slowly clients read. A real host, its database on disk, and sockets that stop reading.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { afterEach, expect, test } from '@jest/globals'
import type { Run } from '../../protocol/run.ts'
import { type CommandProcess, configWithAnyPort, serve } from '../support/command-process.ts'
import { tempFolder } from '../support/temp-folder.ts'

const RUNS = 5_000
const PAGE = 1_000
const STUCK_READERS = 150
/** With 200 runs of each reader in memory they cost 540 MiB. */
const GROWTH_MIB_MAX = 350

const open: IncomingMessage[] = []
afterEach(() => {
  for (const answer of open.splice(0)) answer.destroy()
})

async function openHost(): Promise<CommandProcess> {
  const dataDir = tempFolder()
  const fill = ['build/run.mjs', 'bench/raw/fill-store.ts', dataDir, String(RUNS), '0', '0']
  execFileSync(process.execPath, fill)
  writeFileSync(join(dataDir, 'config.json'), configWithAnyPort(), { mode: 0o600 })
  const host = serve(dataDir)
  await host.waitForLaunch()
  return host
}

/** Begins an answer, of which nothing is read yet. */
async function beginList(host: CommandProcess): Promise<IncomingMessage> {
  const { url, token } = await host.waitForLaunch()
  const headers = { authorization: `Bearer ${token}` }
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    get(`${url}/api/runs`, { headers }, resolve).on('error', reject)
  })
  open.push(answer)
  return answer
}

async function readList(answer: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of answer.setEncoding('utf8')) text += part
  return text
}

/** Memory of the process's own, without the pages of the database, which the system takes back. */
const ownMib = ({ process: { pid } }: CommandProcess): number =>
  Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

test('a list of all runs is its pages, and readers that stop reading cost little memory', async () => {
  const host = await openHost()
  const atRest = ownMib(host)
  const stuck = await Promise.all(Array.from({ length: STUCK_READERS }, () => beginList(host)))
  // All lists take turns, so the others wait for their readers when this one is complete.
  const list = await readList(await beginList(host))
  expect(ownMib(host) - atRest).toBeLessThan(GROWTH_MIB_MAX)
  // A connection that takes nothing for ten seconds is closed, so this one is read before the pages.
  const [late] = stuck
  expect(late && (await readList(late))).toBe(list)

  const pages: Run[] = []
  for (let before = ''; pages.length < RUNS; before = `&before=${pages.at(-1)?.id}`)
    pages.push(...((await host.request(`/api/runs?limit=${PAGE}${before}`)).body as Run[]))
  expect(list).toBe(JSON.stringify(pages))
})
