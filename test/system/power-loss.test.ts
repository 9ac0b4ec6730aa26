/**
 * The power fails: a host and a worker start on what may be left of their files, and everything that they had shown,
 * acknowledged or reported is there.
 *
 * One recording of real processes gives any number of images: what is left when the power fails at a random moment and
 * takes what was not synced. `POWER_LOSS_IMAGES=300 npm run jest -- test/system/power-loss` for long, `SEED=…` to begin
 * with another image. The planted faults take syncs out of the recording, or bring an answer forward, which is like a
 * product without the syncs, or one that answers before its commit is on disk.
 */
import { createHash } from 'node:crypto'
import { cpSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from '@jest/globals'
import { findPublished } from '../support/power-loss/executions.ts'
import { type JudgedImage, judgeImage } from '../support/power-loss/judge.ts'
import {
  type Entry,
  findFiles,
  type Losing,
  type PowerLoss,
  RecordedDisk,
} from '../support/power-loss/recorded-disk.ts'
import { HOST, type Recording, record, TICKETS, TOKEN, WORKER } from '../support/power-loss/recording.ts'
import { runIn, type SentText, Statements, textsIn } from '../support/power-loss/statements.ts'
import { Random, seedFromEnvironment } from '../support/random.ts'
import { UNTIL_MS_MAX } from '../support/until.ts'

const IMAGES = Number(process.env.POWER_LOSS_IMAGES ?? 3)
const IMAGE_MS_MAX = 2 * UNTIL_MS_MAX + 10_000
const RECORDING_MS_MAX = 3 * UNTIL_MS_MAX

/** Syncs without effect; the test has to see each. */
const PLANTED_FAULTS: readonly (readonly [string, (path: string) => boolean])[] = [
  ['event files are not synced', (path) => basename(path) === 'events.jsonl'],
  ['fresh folders of runs are not synced', (path) => /\/host\/runs(\/[^/]+)?$/.test(path)],
  ['drafts are not synced before the rename', (path) => path.endsWith('.draft')],
]

interface EarlyAnswer {
  readonly isCause: (text: string, whole: Statements) => boolean
  readonly isAnswer: (text: string, whole: Statements) => boolean
  /** The changes that the image lacks. */
  readonly missing: RegExp
}

const isFrame = (text: string, type: string, leaseId = ''): boolean =>
  text.startsWith(`{"type":"${type}"`) && text.includes(`"leaseId":"${leaseId}`)
const settledLease = ({ settled }: Statements): string | undefined => [...settled][0]

/** Answers that are sent right behind their cause, before anything that the cause leads to; the test has to see each. */
const EARLY_ANSWERS: readonly (readonly [string, EarlyAnswer])[] = [
  [
    'costs are acknowledged before their commit is on disk',
    {
      isCause: (text, whole) => isFrame(text, 'lease-costs', settledLease(whole)),
      isAnswer: (text, whole) => isFrame(text, 'lease-costs-ack', settledLease(whole)),
      missing: /^the settlement of ls-/,
    },
  ],
  [
    'a follow-up is promised before its commit is on disk',
    {
      isCause: (text) => text.startsWith('{"type":"run-updated"') && text.includes('"status":"completed"'),
      isAnswer: (text) => runIn(text)?.result !== undefined,
      missing: /^the follow-up of run-/,
    },
  ],
]

// ---- images ------------------------------------------------------------------------------------------------------------

/**
 * Half of the images are of the moment right behind a statement, when it is youngest; in half of these a final one.
 */
function drawLoss(sent: readonly SentText[], entries: readonly Entry[], random: Random): PowerLoss {
  const final = sent.filter(({ text }) => isFinal(text))
  const { at } = random.chance(0.5)
    ? random.pick(random.chance(0.5) ? final : sent)
    : { at: random.below(entries.length) - 1 }
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
  return { at: at + 1, random, losing: (path) => (isBelow(path, withPower) ? 'nothing' : losing(path)) }
}

/** The host alone loses its power, and everything that was not synced. */
const loseAll = (at: number): PowerLoss => ({
  at,
  random: new Random(1),
  losing: (path) => (isBelow(path, WORKER) ? 'nothing' : 'everything'),
})

/** Whether the receiver forgets, or takes for done, what it had asked for or reported. */
const isFinal = (text: string): boolean =>
  isFrame(text, 'lease-costs-ack') || isFrame(text, 'run-complete-ack') || runIn(text) !== undefined

/** Whether the path is of a machine that keeps its power: the tracker's, the person's, or the one of that name. */
const isBelow = (path: string, withPower: string): boolean =>
  [TICKETS, TOKEN, withPower].some((name) => path.split('/').includes(name))

interface Outcome {
  /** Statements that do not hold. */
  readonly missing: readonly string[]
  readonly lostChanges: number
}

async function judge({ system, found, entries, whole }: Recording, loss: PowerLoss): Promise<Outcome> {
  const disk = new RecordedDisk(found, entries, loss)
  for (const name of [HOST, WORKER, TICKETS]) {
    rmSync(join(system.folder, name), { recursive: true, force: true })
    disk.write(join(system.folder, name))
  }
  // The code host is at the end of the recording, whatever the image before has published.
  rmSync(system.code, { recursive: true })
  cpSync(`${system.code}.recorded`, system.code, { recursive: true })
  // The worker deletes its token when it can start again without one.
  const isToken = ({ kind, paths }: Entry) => kind === 'u' && basename(paths[0] ?? '') === TOKEN
  const image: JudgedImage = {
    system,
    workerDir: entries.slice(0, loss.at).some(isToken) ? join(system.folder, WORKER) : undefined,
    sent: new Statements(entries, loss.at),
    whole,
    movedTickets: readdirSync(system.tickets).flatMap((name) =>
      /^state: (Todo|Backlog)$/m.test(readFileSync(join(system.tickets, name), 'utf8'))
        ? []
        : [basename(name, '.md')],
    ),
  }
  return { missing: await judgeImage(image), lostChanges: disk.lostChanges }
}

/** The power is lost right behind an answer that was brought forward to its cause. */
function answerEarly({ entries, whole }: Recording, { isCause, isAnswer }: EarlyAnswer) {
  const texts = textsIn(entries)
  const answerAt = texts.find(({ text }) => isAnswer(text, whole))?.at ?? 0
  const causeAt = texts.findLast(({ at, text }) => at < answerAt && isCause(text, whole))?.at ?? 0
  const moved = [...entries.slice(0, causeAt + 1), ...entries.slice(answerAt, answerAt + 1)]
  return {
    entries: [...moved, ...entries.slice(causeAt + 1, answerAt), ...entries.slice(answerAt + 1)],
    at: moved.length,
  }
}

// ---- tests -------------------------------------------------------------------------------------------------------------

let recorded: Promise<Recording> | undefined
/** One recording is enough for all tests. */
function recordOnce(): Promise<Recording> {
  recorded ??= record()
  return recorded
}

/** A long run is watched, and its parts are added up afterwards. */
function showProgress(line: string): void {
  if (process.env.POWER_LOSS_IMAGES !== undefined) process.stderr.write(`${line}\n`)
}

test(
  `${IMAGES} images after a power loss: everything shown, acknowledged or reported is there`,
  async () => {
    const recording = await recordOnce()
    expectWhole(recording)
    const sent = textsIn(recording.entries)
    const first = seedFromEnvironment(1)
    const broken: string[] = []
    let withLoss = 0
    for (let seed = first; seed < first + IMAGES; seed++) {
      const loss = drawLoss(sent, recording.entries, new Random(seed))
      const { missing, lostChanges } = await judge(recording, loss)
      const moment = `SEED=${seed}, entry ${loss.at} of ${recording.entries.length}`
      showProgress(`${moment}: ${lostChanges} changes lost, ${missing.length} statements broken`)
      if (missing.length > 0) broken.push(`${moment}: ${missing.join('\n')}`)
      if (lostChanges > 0) withLoss += 1
    }
    expect(broken).toEqual([])
    // A power loss that takes nothing proves nothing.
    expect(withLoss).toBeGreaterThan(IMAGES / 2)
  },
  RECORDING_MS_MAX + IMAGES * IMAGE_MS_MAX,
)

test.each(PLANTED_FAULTS)(
  'a planted fault is seen: %s',
  async (_name, ignoresSync) => {
    const recording = await recordOnce()
    const { missing } = await judge(recording, { ...loseAll(recording.entries.length), ignoresSync })
    expect(missing).not.toEqual([])
  },
  RECORDING_MS_MAX,
)

test.each(EARLY_ANSWERS)(
  'a planted fault is seen: %s',
  async (_name, planted) => {
    const recording = await recordOnce()
    const { entries, at } = answerEarly(recording, planted)
    const { missing } = await judge({ ...recording, entries }, loseAll(at))
    expect(missing).toContainEqual(expect.stringMatching(planted.missing))
  },
  RECORDING_MS_MAX,
)

/**
 * The recording repeats every file to the last byte, but for the one that LMDB maps and makes anew after a crash. Each
 * kind of statement occurs.
 */
function expectWhole({ system, found, entries, whole }: Recording): void {
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
  const { runIds, runs, patched, acknowledged, reported, followUps, settled, isEnrolled, events } = whole
  expect([runIds, runs, patched].map(({ size }) => size)).toEqual([4, 4, 3])
  // Each run, a follow-up, and a second execution.
  expect([reported, followUps, settled].map(({ size }) => size)).toEqual([6, 1, 2])
  // A run that does not end may have too few frames for an acknowledgement.
  expect(acknowledged.size).toBeGreaterThanOrEqual(3)
  expect(findPublished(system, whole, whole)).toContainEqual(expect.stringMatching(/: 2 pushes, 2 comments$/))
  expect([isEnrolled, events.length > 0]).toEqual([true, true])
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
