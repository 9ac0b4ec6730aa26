import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { TSchema } from 'typebox'
import {
  checkHostFrame,
  checkRegisterHead,
  checkWorkerFrame,
  HostFrame,
  hostFrames,
  Job,
  WorkerFrame,
  workerFrames,
} from '../../../protocol/frames.ts'
import {
  ARTIFACT_PART_BYTES_MAX,
  PATH_CHARS_MAX,
  WORKER_FRAME_BYTES_MAX,
  WORKER_FRAME_KEYS_MAX,
} from '../../../protocol/limits.ts'
import { type Checker, createChecker, parseJson } from '../../../protocol/parse.ts'
import { asShape } from '../../../protocol/schema-errors.ts'
import { artifactNameFault } from '../../../store/files/artifact-name.ts'
import { isUsageName } from '../../../store/files/usage.ts'
import { hostFrameExamples, job, workerFrameExamples } from './examples.ts'

const error = (check: Checker<unknown>, frame: unknown) => {
  const checked = check(frame)
  return checked.ok ? 'accepted' : checked.error
}

type Side = readonly [string, Checker<unknown>, TSchema, Record<string, TSchema>, Record<string, unknown>]
const sides: Side[] = [
  ['worker', checkWorkerFrame, WorkerFrame, workerFrames, workerFrameExamples],
  ['host', checkHostFrame, HostFrame, hostFrames, hostFrameExamples],
]
const frames = sides.flatMap(([side, check, union, table, examples]) =>
  Object.entries(examples).map(([type, frame]) => ({
    side,
    type,
    check,
    union,
    schema: table[type] ?? {},
    frame: Object(frame),
  })),
)

describe('every frame', () => {
  test.each(frames)('$side: $type', ({ type, check, union, schema, frame }) => {
    expect(error(check, frame)).toBe('accepted')
    expect(error(createChecker(union), frame)).toBe('accepted')
    expect(error(check, { ...frame, surplus: 1 })).toBe('/surplus: unknown key')
    const { required = [], properties = {} } = asShape(schema)
    expect(properties.type?.const).toBe(type)
    for (const key of required) {
      const { [key]: _gone, ...rest } = frame
      expect(error(check, rest)).toBe(`/${key}: is required`)
    }
    const least = Object.fromEntries(Object.entries(frame).filter(([key]) => required.includes(key)))
    expect(error(check, least)).toBe('accepted')
  })

  test('the two directions share no frame type', () => {
    expect(Object.keys(workerFrames).filter((type) => type in hostFrames)).toEqual([])
  })

  test.each(sides)('%s: an unknown type is refused with a list of the known ones', (_, check, __, table) => {
    const [first] = Object.keys(table)
    expect(error(check, { type: 'hullo' })).toMatch(
      new RegExp(`^/type: must be one of "${first}", .*, not "hullo"$`),
    )
    for (const frame of [null, [], 'x', {}, { type: 1 }, { type: 'constructor' }, { type: '__proto__' }]) {
      expect(error(check, frame)).not.toBe('accepted')
    }
  })
})

describe('characteristic wrong frames', () => {
  const { register } = workerFrameExamples
  const event = workerFrameExamples['run-event']
  const artifact = workerFrameExamples['run-artifact']
  const snapshot = workerFrameExamples['run-usage-snapshot']
  const complete = workerFrameExamples['run-complete']

  test.each<[string, unknown, string]>([
    ['numbers start at 1', { ...event, seq: 0 }, '/seq: must be at least 1, not 0'],
    [
      'an event has no run of its own',
      { ...event, event: { ...event.event, runId: 'run-1' } },
      '/event/runId: unknown key',
    ],
    ['an event of no kind', { ...event, event: { at: 'x' } }, '/event/type: is required'],
    [
      'a pairing with a secret',
      { ...register, auth: { kind: 'pairing', secret: 'x' } },
      '/auth/secret: unknown key',
    ],
    [
      'an unknown way in',
      { ...register, auth: { kind: 'password' } },
      '/auth/kind: must be one of "pairing", "credential", "join", not "password"',
    ],
    [
      'no capacity',
      { ...register, capabilities: { ...register.capabilities, maxConcurrency: 0 } },
      '/capabilities/maxConcurrency: must be at least 1, not 0',
    ],
    [
      'a patch that ends the run',
      { ...workerFrameExamples['run-patch'], patch: { status: 'completed' } },
      '/patch/status: must be one of "preparing", "running", "finalizing", not "completed"',
    ],
    [
      'an outcome that does not',
      { ...complete, outcome: { status: 'running', costs: [] } },
      '/outcome/status: must be one of "completed", "failed", "cancelled", not "running"',
    ],
    ['data that is not base64', { ...artifact, data: 'a b' }, '/data: must be base64'],
    [
      'a part too large',
      { ...artifact, data: 'A'.repeat(349_529) },
      '/data: must have at most 349528 characters',
    ],
    [
      'a project key that climbs',
      { ...snapshot, snapshot: { ...snapshot.snapshot, projectKey: '../x' } },
      '/snapshot/projectKey: must be a name of letters, digits, ., - and _, with no . in front and no .json behind',
    ],
    [
      'a session id with a slash',
      { ...snapshot, snapshot: { ...snapshot.snapshot, sessionId: 'a/b' } },
      '/snapshot/sessionId: must be a name of letters, digits, ., - and _, with no . in front and no .json behind',
    ],
    [
      "a session that would be another one's file",
      { ...snapshot, snapshot: { ...snapshot.snapshot, sessionId: 'a.json' } },
      '/snapshot/sessionId: must be a name of letters, digits, ., - and _, with no . in front and no .json behind',
    ],
    [
      "a subagent that would be a file's file",
      { ...snapshot, snapshot: { ...snapshot.snapshot, subagentId: 'a.json' } },
      '/snapshot/subagentId: must be a name of letters, digits, ., - and _, with no . in front and no .json behind',
    ],
    [
      'a snapshot with half a place: no number',
      { type: snapshot.type, leaseId: snapshot.leaseId, snapshot: snapshot.snapshot },
      '/seq: is required beside leaseId',
    ],
    [
      'a snapshot with half a place: no lease',
      { type: snapshot.type, seq: snapshot.seq, snapshot: snapshot.snapshot },
      '/leaseId: is required beside seq',
    ],
    [
      'a gap that ends before it begins',
      { ...workerFrameExamples['lease-gap'], from: 9, to: 8 },
      '/to: must be at least from, which is 9, not 8',
    ],
    ['base64 that was cut off', { ...artifact, data: 'aGkhZ' }, '/data: must be base64'],
    ...['', '.', '..', 'a/b', 'a\\b', 'a\0', 'a\n', 'a\u009f', '\ud800'].map(
      (name): [string, unknown, string] => [
        `a file named ${JSON.stringify(name)}`,
        { ...artifact, name },
        '/name: must be the name of a file, without slashes and control characters, and not . or ..',
      ],
    ),
    [
      'a name too long in bytes',
      { ...artifact, name: 'ä'.repeat(128) },
      '/name: must have at most 255 bytes',
    ],
    [
      'a link that would run',
      { ...complete, outcome: { ...complete.outcome, prUrl: 'javascript:alert(1)' } },
      '/outcome/prUrl: must be an address that begins with https, http or file',
    ],
    [
      'a prompt in a usage entry',
      {
        ...snapshot,
        snapshot: { ...snapshot.snapshot, entries: [{ ...snapshot.snapshot.entries[0], prompt: 'hi' }] },
      },
      '/snapshot/entries/0/prompt: unknown key',
    ],
  ])('%s', (_, frame, message) => {
    expect(error(checkWorkerFrame, frame)).toBe(message)
  })

  test('project folders are named as agents name them', () => {
    for (const projectKey of ['-home-me-repo', '_x', 'a.b'])
      expect(error(checkWorkerFrame, { ...snapshot, snapshot: { ...snapshot.snapshot, projectKey } })).toBe(
        'accepted',
      )
  })

  test('the schema accepts exactly the artifact names that the store accepts', () => {
    const part = fc.stringMatching(/^[-a._/]{0,3}(\.json)?[-a.]?$/)
    const character = fc.constantFrom('a', '.', '/', '\\', '\0', '\u009f', '\ud800', 'ä', '💡', ' ')
    const name = fc.string({ unit: character, maxLength: 140, size: 'max' })
    fc.assert(
      fc.property(part, name, (sessionId, name) => {
        const usage = { ...snapshot, snapshot: { ...snapshot.snapshot, sessionId } }
        expect([sessionId, checkWorkerFrame(usage).ok]).toEqual([sessionId, isUsageName(sessionId)])
        const fits = artifactNameFault(name) === undefined
        expect([name, checkWorkerFrame({ ...artifact, name }).ok]).toEqual([name, fits])
      }),
      { numRuns: 500 },
    )
  })

  test('a lost range of one frame, an empty part and a name of maximum length are valid', () => {
    expect(error(checkWorkerFrame, { ...workerFrameExamples['lease-gap'], from: 4, to: 4 })).toBe('accepted')
    for (const name of ['...', '.env', 'ä'.repeat(127), 'lamp 💡.png'])
      expect(error(checkWorkerFrame, { ...artifact, name, data: '' })).toBe('accepted')
  })

  test('the path to a folder of repositories may be as long as the configuration allows', () => {
    const long = { ...job, codehost: { ...Object(job.codehost), path: '/'.repeat(PATH_CHARS_MAX) } }
    expect(error(createChecker(Job), long)).toBe('accepted')
    expect(
      error(createChecker(Job), { ...long, codehost: { ...long.codehost, path: `${long.codehost.path}/` } }),
    ).toBe(`/codehost/path: must have at most ${PATH_CHARS_MAX} characters`)
  })

  test('a wrong secret is not repeated', () => {
    const message = error(checkWorkerFrame, {
      ...register,
      auth: { kind: 'credential', workerId: 'wk-1', secret: 424242 },
    })
    expect(message).toBe('/auth/secret: must be a string, not a number')
  })

  test('a worker of another version is recognised by the head of its frame', () => {
    expect(checkRegisterHead({ type: 'register', protocolVersion: 9, passport: {} })).toMatchObject({
      ok: true,
      value: { protocolVersion: 9 },
    })
    expect(checkRegisterHead({ type: 'register' }).ok).toBe(false)
    expect(checkRegisterHead(workerFrameExamples.heartbeat).ok).toBe(false)
  })
})

describe('sizes', () => {
  test('a full artifact part fits into one frame', () => {
    const data = Buffer.alloc(ARTIFACT_PART_BYTES_MAX, 7).toString('base64')
    const frame = { ...workerFrameExamples['run-artifact'], data }
    expect(error(checkWorkerFrame, frame)).toBe('accepted')
    expect(JSON.stringify(frame).length).toBeLessThan(WORKER_FRAME_BYTES_MAX)
  })

  test("a frame full of usage entries passes the JSON check with a worker's key limit", () => {
    const [entry] = workerFrameExamples['run-usage-snapshot'].snapshot.entries
    const entries = Array.from({ length: 5_000 }, () => entry)
    const frame = {
      ...workerFrameExamples['run-usage-snapshot'],
      snapshot: { projectKey: 'a', sessionId: 'b', entries },
    }
    const text = JSON.stringify(frame)
    expect(text.length).toBeLessThan(WORKER_FRAME_BYTES_MAX)
    expect(parseJson(text, WORKER_FRAME_KEYS_MAX).ok).toBe(true)
    expect(error(checkWorkerFrame, frame)).toBe('accepted')
  })

  test('a first execution needs no pull request', () => {
    const { pull: _, codehost: __, sandbox: ___, ...first } = job
    expect(error(createChecker(Job), { ...first, kind: 'run', credentials: {}, limits: {} })).toBe('accepted')
    expect(error(createChecker(Job), { ...first, run: {} })).toMatch(/^\/run\/[a-zA-Z]+: is required$/)
  })
})
