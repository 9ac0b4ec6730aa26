import { describe, expect, test } from '@jest/globals'
import type { TSchema } from 'typebox'
import { asShape } from '../../protocol/explain.ts'
import {
  checkHostFrame,
  checkRegisterHead,
  checkWorkerFrame,
  HostFrame,
  hostFrames,
  Job,
  WorkerFrame,
  workerFrames,
} from '../../protocol/frames.ts'
import {
  ARTIFACT_PART_BYTES_MAX,
  WORKER_FRAME_BYTES_MAX,
  WORKER_FRAME_KEYS_MAX,
} from '../../protocol/limits.ts'
import { type Checker, checker, parseJson } from '../../protocol/parse.ts'
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
    expect(error(checker(union), frame)).toBe('accepted')
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

  test('the two directions share no word', () => {
    expect(Object.keys(workerFrames).filter((type) => type in hostFrames)).toEqual([])
  })

  test.each(sides)('%s: a type nobody knows is refused with those that are', (_, check, __, table) => {
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
      '/auth/kind: must be one of "pairing", "credential", not "password"',
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
      '/snapshot/projectKey: must be a name of letters, digits, ., - and _',
    ],
    [
      'a session id with a slash',
      { ...snapshot, snapshot: { ...snapshot.snapshot, sessionId: 'a/b' } },
      '/snapshot/sessionId: must be a name of letters, digits, ., - and _',
    ],
    [
      'a prompt in a usage entry',
      {
        ...snapshot,
        snapshot: { ...snapshot.snapshot, entries: [{ ...snapshot.snapshot.entries[0], prompt: 'hi' }] },
      },
      '/snapshot/entries/0/prompt: unknown key',
    ],
  ])('%s', (_, frame, says) => {
    expect(error(checkWorkerFrame, frame)).toBe(says)
  })

  test('a wrong secret is not repeated', () => {
    const says = error(checkWorkerFrame, {
      ...register,
      auth: { kind: 'credential', workerId: 'wk-1', secret: 424242 },
    })
    expect(says).toBe('/auth/secret: must be a string, not a number')
  })

  test('a worker of another version is recognised by its first words', () => {
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

  test("a frame full of usage entries passes the gate with a worker's number of keys", () => {
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
    expect(error(checker(Job), { ...first, kind: 'run', credentials: {}, limits: {} })).toBe('accepted')
    expect(error(checker(Job), { ...first, run: {} })).toMatch(/^\/run\/[a-zA-Z]+: is required$/)
  })
})
