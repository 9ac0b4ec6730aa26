/**
 * The host is killed repeatedly during settings patches and thousands of store writes: every acknowledged write is
 * there, config.json is complete at any instant, and the next start succeeds.
 *
 * 25 times by default; `KILL_CYCLES=2000 npm run jest -- test/system/kill` for long, `SEED=…` to repeat what failed.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from '@jest/globals'
import { readConfig } from '../../core/settings/read.ts'
import { runTypeScript } from '../support/child-process.ts'
import { serve } from '../support/command-process.ts'
import { Random, seedFromEnvironment } from '../support/random.ts'
import { tempFolder } from '../support/temp-folder.ts'
import { until } from '../support/until.ts'

const CYCLES = Number(process.env.KILL_CYCLES ?? 25)
const TOKEN = 'a-launch-token-for-the-one-that-gets-killed'
const PATCHERS = 4
/** The least number of acknowledged writes over all kills, because a kill of an idle host proves nothing. */
const COUNTS_A_CYCLE = 1_050
const PATCHES_A_CYCLE = 0.25
/** Reading the output of a busy host is expensive, so poll rarely. */
const POLL_EVERY_MS = 50
const WORK_MS_MAX = 60_000

interface Known {
  /** By host process: the highest count that it acknowledged. */
  readonly acknowledged: Map<string, number>
  /** Repo keys whose patch was answered with 200. */
  readonly patched: Set<string>
}

/** Runs one host until a random instant, then kills it. */
async function cycle(dataDir: string, known: Known, random: Random, round: number): Promise<void> {
  const host = runTypeScript('test/support/busy-host.ts', [dataDir, TOKEN])
  let port = 0
  await until('the doors to open', () => {
    const line = host.lines.find((each) => each.startsWith('open ') || each.startsWith('failed '))
    if (line?.startsWith('failed')) throw new Error(line)
    if (host.process.exitCode !== null) throw new Error(`it ended: ${host.errors.join('\n')}`)
    port = Number(line?.split(' ')[1] ?? 0)
    return port > 0
  })
  let alive = true
  const patching = Array.from({ length: PATCHERS }, async (_, patcher) => {
    for (let n = 0; alive; n++) {
      const key = `r${round}-${patcher}-${n}`
      // Every third patch deletes an old key, so that the file grows and shrinks.
      const old = n % 3 === 2 ? `r${round}-${patcher}-${n - 1}` : undefined
      const repos = { [key]: { remote: 'owner/name' }, ...(old === undefined ? {} : { [old]: null }) }
      if (old !== undefined) known.patched.delete(old)
      const status = await patch(port, repos)
      if (status === 200) known.patched.add(key)
      else if (alive) throw new Error(`a patch was answered with ${status}`)
    }
  })
  try {
    await pause(50 + random.below(250))
    const isDone = () => isShareDone(host.lines, known, round + 1)
    await until('its share of the work to be done', isDone, WORK_MS_MAX, POLL_EVERY_MS)
  } finally {
    alive = false
    host.process.kill('SIGKILL')
  }
  await host.ended
  await Promise.all(patching)
  for (const line of host.lines) {
    const [word, bootId = '', n] = line.split(' ')
    if (word === 'acknowledged')
      known.acknowledged.set(bootId, Math.max(known.acknowledged.get(bootId) ?? 0, Number(n)))
    if (word === 'failed') throw new Error(line)
  }
}

/** `lines`: the output of the running host. */
function isShareDone(lines: readonly string[], { acknowledged, patched }: Known, cycles: number): boolean {
  const counts = sum(acknowledged.values()) + lines.filter((line) => line.startsWith('acknowledged ')).length
  return counts > cycles * COUNTS_A_CYCLE && patched.size > cycles * PATCHES_A_CYCLE
}

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((total, n) => total + n, 0)

/** Returns the status, or 0 if the host died before responding. */
async function patch(port: number, repos: object): Promise<number> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/api/settings`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ patch: { repos } }),
    })
    await answer.arrayBuffer()
    return answer.status
  } catch {
    return 0
  }
}

function judgeFile(dataDir: string, known: Known): void {
  const text = readFileSync(join(dataDir, 'config.json'), 'utf8')
  const read = readConfig(text)
  if (!read.ok) throw new Error(`config.json is not whole: ${read.refusal.message}`)
  const there = new Set(Object.keys(read.value.stored.repos ?? {}))
  const lost = [...known.patched].filter((key) => !there.has(key))
  if (lost.length > 0) throw new Error(`acknowledged patches are gone: ${lost.join(', ')}`)
}

/** The next start must find at least the acknowledged count. */
function judgeStore(found: readonly string[], known: Known): void {
  const counts = new Map(found.map((line) => [line.split(' ')[1] ?? '', Number(line.split(' ')[2])]))
  for (const [bootId, n] of known.acknowledged) {
    if ((counts.get(bootId) ?? -1) < n)
      throw new Error(`${bootId} acknowledged ${n}, found ${counts.get(bootId)}`)
  }
}

test(
  `${CYCLES} kills lose nothing that was acknowledged`,
  async () => {
    const seed = seedFromEnvironment(20_261_121)
    const random = new Random(seed)
    const dataDir = tempFolder()
    const known: Known = { acknowledged: new Map(), patched: new Set() }
    writeFileSync(join(dataDir, 'config.json'), '{"server":{"port":0},"worker":{"local":false}}')
    try {
      for (let round = 0; round < CYCLES; round++) {
        await cycle(dataDir, known, random, round)
        judgeFile(dataDir, known)
        if (round % 10 === 9 || round === CYCLES - 1) await judgeStart(dataDir, known)
      }
    } catch (error) {
      throw new Error(`SEED=${seed}: ${error instanceof Error ? error.message : String(error)}`)
    }
    // The kills must have hit a busy host.
    expect(sum(known.acknowledged.values())).toBeGreaterThan(CYCLES * 1_000)
    expect(known.patched.size).toBeGreaterThan(CYCLES * PATCHES_A_CYCLE)
  },
  120_000 + CYCLES * 10_000,
)

/** The command starts on the data of the killed host, and the store contains the acknowledged writes. */
async function judgeStart(dataDir: string, known: Known): Promise<void> {
  const command = serve(dataDir)
  const config = await command.request('/api/config')
  expect(config.status).toBe(200)
  command.process.kill('SIGTERM')
  expect(await command.exit).toBe(0)
  const looking = runTypeScript('test/support/busy-host.ts', [dataDir, TOKEN])
  await until('the doors to open', () => looking.lines.some((line) => line.startsWith('open ')))
  looking.process.kill('SIGKILL')
  await looking.ended
  judgeStore(
    looking.lines.filter((line) => line.startsWith('found ')),
    known,
  )
}
