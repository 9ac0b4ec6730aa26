/**
 * The power fails: a host and a worker start on what may be left of their files, and everything that they had shown,
 * acknowledged or reported is there.
 *
 * One recording of real processes gives any number of images: what is left when the power fails at a random moment and
 * takes what was not synced. `POWER_LOSS_IMAGES=300 npm run jest -- test/system/power-loss` for long, `SEED=…` to begin
 * with another image. The planted faults take syncs out of the recording, which is like a product without them.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from '@jest/globals'
import { type JudgedImage, judgeImage } from '../support/power-loss/judge.ts'
import {
  type Entry,
  findFiles,
  type Losing,
  type PowerLoss,
  RecordedDisk,
} from '../support/power-loss/recorded-disk.ts'
import { HOST, type Recording, record, TICKETS, TOKEN, WORKER } from '../support/power-loss/recording.ts'
import { Statements } from '../support/power-loss/statements.ts'
import { Random, seedFromEnvironment } from '../support/random.ts'

const IMAGES = Number(process.env.POWER_LOSS_IMAGES ?? 4)
const IMAGE_MS_MAX = 100_000
const RECORDING_MS_MAX = 120_000

/** Syncs without effect; the test has to see each. */
const PLANTED_FAULTS: readonly (readonly [string, (path: string) => boolean])[] = [
  ['event files are not synced', (path) => basename(path) === 'events.jsonl'],
  ['fresh folders of runs are not synced', (path) => /\/host\/runs(\/[^/]+)?$/.test(path)],
  ['drafts are not synced before the rename', (path) => path.endsWith('.draft')],
]

// ---- images ------------------------------------------------------------------------------------------------------------

/** Half of the images are of the moment right behind a statement, when it is youngest. */
function drawLoss(entries: readonly Entry[], random: Random): PowerLoss {
  const sent = entries.flatMap(({ kind }, at) => (kind === '>' ? [at + 1] : []))
  const at = random.chance(0.5) ? random.pick(sent) : random.below(entries.length)
  const withPower = random.pick(['neither', 'neither', 'neither', HOST, WORKER])
  const takesEverything = random.chance(0.4)
  const drawn = new Map<string, Losing>()
  const losing = (path: string) => {
    const known = drawn.get(path)
    if (known !== undefined) return known
    const own = takesEverything ? 'everything' : random.pick(['nothing', 'everything', 'something'] as const)
    drawn.set(path, own)
    return own
  }
  return { at, random, losing: (path) => (isBelow(path, withPower) ? 'nothing' : losing(path)) }
}

/** Whether the path is of a machine that keeps its power: the tracker's, the person's, or the one of that name. */
const isBelow = (path: string, withPower: string): boolean =>
  [TICKETS, TOKEN, withPower].some((name) => path.split('/').includes(name))

interface Outcome {
  /** Statements that do not hold. */
  readonly missing: readonly string[]
  readonly lostChanges: number
}

async function judge({ system, found, entries }: Recording, loss: PowerLoss): Promise<Outcome> {
  const disk = new RecordedDisk(found, entries, loss)
  for (const name of [HOST, WORKER, TICKETS]) {
    rmSync(join(system.folder, name), { recursive: true, force: true })
    disk.write(join(system.folder, name))
  }
  // The worker deletes its token when it can start again without one.
  const isToken = ({ kind, paths }: Entry) => kind === 'u' && basename(paths[0] ?? '') === TOKEN
  const image: JudgedImage = {
    system,
    workerDir: entries.slice(0, loss.at).some(isToken) ? join(system.folder, WORKER) : undefined,
    sent: new Statements(entries, loss.at),
    movedTickets: readdirSync(system.tickets).flatMap((name) =>
      /^state: (Todo|Backlog)$/m.test(readFileSync(join(system.tickets, name), 'utf8'))
        ? []
        : [basename(name, '.md')],
    ),
  }
  return { missing: await judgeImage(image), lostChanges: disk.lostChanges }
}

// ---- tests -------------------------------------------------------------------------------------------------------------

let recorded: Promise<Recording> | undefined
/** One recording is enough for all tests. */
function recordOnce(): Promise<Recording> {
  recorded ??= record()
  return recorded
}

test(
  `${IMAGES} images after a power loss: everything shown, acknowledged or reported is there`,
  async () => {
    const recording = await recordOnce()
    expectWhole(recording)
    const first = seedFromEnvironment(1)
    let withLoss = 0
    for (let seed = first; seed < first + IMAGES; seed++) {
      const loss = drawLoss(recording.entries, new Random(seed))
      const { missing, lostChanges } = await judge(recording, loss)
      const moment = `SEED=${seed}, entry ${loss.at} of ${recording.entries.length}`
      if (missing.length > 0) throw new Error(`${moment}: ${missing.join('\n')}`)
      if (lostChanges > 0) withLoss += 1
    }
    // A power loss that takes nothing proves nothing.
    expect(withLoss).toBeGreaterThan(IMAGES / 2)
  },
  RECORDING_MS_MAX + IMAGES * IMAGE_MS_MAX,
)

test.each(PLANTED_FAULTS)(
  'a planted fault is seen: %s',
  async (_name, ignoresSync) => {
    const recording = await recordOnce()
    const at = recording.entries.length
    const { missing } = await judge(recording, {
      at,
      random: new Random(1),
      losing: (path) => (isBelow(path, WORKER) ? 'nothing' : 'everything'),
      ignoresSync,
    })
    expect(missing).not.toEqual([])
  },
  RECORDING_MS_MAX,
)

/**
 * The recording repeats every file to the last byte, but for the one that LMDB maps and makes anew after a crash. Each
 * kind of statement occurs.
 */
function expectWhole({ system, found, entries }: Recording): void {
  const disk = new RecordedDisk(found, entries, {
    at: entries.length,
    losing: () => 'nothing',
    random: new Random(1),
  })
  for (const name of [HOST, WORKER, TICKETS]) {
    const [real, repeated] = [join(system.folder, name), join(system.folder, `${name}.repeated`)]
    disk.write(real, repeated)
    expect(bytesBelow(repeated)).toEqual(bytesBelow(real))
  }
  const sent = new Statements(entries, entries.length)
  const { runIds, runs, patched, acknowledged, reported, isEnrolled } = sent
  expect([runIds, runs, patched, reported].map(({ size }) => size)).toEqual([3, 3, 3, 3])
  // The run that does not end may have too few frames for an acknowledgement.
  expect(acknowledged.size).toBeGreaterThanOrEqual(2)
  expect([isEnrolled, sent.events.length > 0]).toEqual([true, true])
}

const bytesBelow = (folder: string): Map<string, string> =>
  new Map(
    findFiles(folder)
      .filter(({ path }) => basename(path) !== 'lock.mdb')
      .map(({ path, data }) => [
        path.slice(folder.length),
        data === undefined ? '' : createHash('sha256').update(data).digest('hex'),
      ]),
  )
