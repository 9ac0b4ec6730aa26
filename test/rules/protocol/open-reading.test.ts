/** Reading is open: unknown keys at every level of every frame are removed, and unknown types are told apart. */
import { describe, expect, test } from '@jest/globals'
import {
  checkHostFrame,
  checkWorkerFrame,
  hostFrames,
  readHostFrame,
  readWorkerFrame,
  workerFrames,
} from '../../../protocol/frames.ts'
import {
  asShape,
  chooseBranch,
  isObject,
  propertyShape,
  type Shape,
} from '../../../protocol/schema-errors.ts'
import { packUsage, type UsageEntry } from '../../../protocol/usage.ts'
import { at, events, hostFrameExamples, leaseId, workerFrameExamples } from './examples.ts'

/** A key that no schema knows, with a value that is itself a tree. */
const ADDED = 'addedLater'
const MARK = 'must not be kept'
const addedValue = { [ADDED]: [MARK, { deep: MARK }] }

const { register } = workerFrameExamples
const snapshotFrame = workerFrameExamples['run-usage-snapshot']
const usage: UsageEntry[] = snapshotFrame.snapshot.entries
const reportedEvents = events.map(({ runId: _, index: __, ...event }) => event)

/** Every worker frame, with every form of its unions. */
const workerSamples: readonly object[] = [
  ...Object.values(workerFrameExamples),
  { ...register, auth: { kind: 'pairing', token: 'wp-secret' } },
  { ...register, auth: { kind: 'join', key: 'wj-secret' } },
  ...reportedEvents.map((event) => ({ type: 'run-event', leaseId, seq: 1, event })),
  { ...snapshotFrame, snapshot: { projectKey: 'p', sessionId: 's', packed: packUsage(usage) } },
  {
    ...workerFrameExamples['run-complete'],
    outcome: {
      ...workerFrameExamples['run-complete'].outcome,
      keys: [{ kind: 'a GitHub token', file: 'a.env', line: 2 }],
      result: { artifacts: ['a.txt'], branch: 'b' },
    },
  },
]
const { dispatch } = hostFrameExamples
const edited = { by: 'eve', at: '2026-03-01T08:30:00.000Z' }
const { run } = dispatch.job
const hostSamples: readonly object[] = [
  ...Object.values(hostFrameExamples),
  { ...dispatch, job: { ...dispatch.job, run: { ...run, ticket: { ...run.ticket, edited } } } },
]

const readAny = (frame: object) => {
  const text = JSON.stringify(frame)
  const isFirst = 'type' in frame && frame.type === 'register'
  return 'type' in frame && String(frame.type) in workerFrames
    ? readWorkerFrame(text, !isFirst)
    : readHostFrame(text)
}

/** Calls `visit` for each closed object of a frame, with a function that returns the frame with that object changed. */
function visitRecords(
  schema: Shape,
  value: unknown,
  replace: (changed: unknown) => object,
  visit: (title: string, withKey: object) => void,
): void {
  const shape = schema.anyOf === undefined ? schema : chooseBranch(schema, value)
  if (shape === undefined) return
  if (Array.isArray(value) && shape.items !== undefined) {
    for (const [index, item] of value.entries())
      visitRecords(shape.items, item, (changed) => replace(value.with(index, changed)), visit)
    return
  }
  if (!isObject(value)) return
  if (shape.additionalProperties === false)
    visit(shape.title ?? '', replace({ ...value, [ADDED]: addedValue }))
  for (const [key, inner] of Object.entries(value)) {
    const innerSchema = propertyShape(shape, key)
    if (innerSchema !== undefined)
      visitRecords(innerSchema, inner, (changed) => replace({ ...value, [key]: changed }), visit)
  }
}

/** The titles of all closed objects below a schema. */
function recordTitles(schema: Shape, found: Set<string>): Set<string> {
  if (schema.additionalProperties === false) found.add(schema.title ?? '')
  const inner = [...(schema.anyOf ?? []), ...Object.values(schema.properties ?? {})]
  for (const part of schema.items === undefined ? inner : [...inner, schema.items]) recordTitles(part, found)
  return found
}

const tables: Readonly<Record<string, Shape>> = Object.fromEntries(
  Object.entries({ ...workerFrames, ...hostFrames }).map(([type, schema]) => [type, asShape(schema)]),
)
const titled = (frame: object) => [`${Reflect.get(frame, 'type')}`, frame] as const

describe('a key that a newer peer adds', () => {
  test.each([...workerSamples, ...hostSamples].map(titled))(
    'at any level of %s is removed',
    (type, frame) => {
      const schema = tables[type] ?? {}
      const plain = readAny(frame)
      expect(plain.ok).toBe(true)
      visitRecords(
        schema,
        frame,
        (changed) => Object(changed),
        (title, withKey) => {
          expect(JSON.stringify(withKey)).toContain(MARK)
          expect([title, readAny(withKey)]).toEqual([title, plain])
          const check = type in workerFrames ? checkWorkerFrame : checkHostFrame
          expect([title, check(withKey).ok]).toEqual([title, false])
        },
      )
    },
  )

  test('is tried at every record that a frame can contain', () => {
    const visited = new Set<string>()
    for (const frame of [...workerSamples, ...hostSamples])
      visitRecords(
        tables[String(Reflect.get(frame, 'type'))] ?? {},
        frame,
        (changed) => Object(changed),
        (title) => visited.add(title),
      )
    const all = new Set<string>()
    for (const schema of Object.values(tables)) recordTitles(schema, all)
    expect([...all].filter((title) => !visited.has(title))).toEqual([])
  })

  test('leaves an agent message as it is, because no schema describes it', () => {
    const event = { at, type: 'agent', provider: 'agentA', message: { [ADDED]: 1 } }
    expect(readAny({ ...workerFrameExamples['run-event'], event })).toMatchObject({ value: { event } })
  })

  test('does not excuse a known key of the wrong type', () => {
    expect(readAny({ ...workerFrameExamples.heartbeat, leases: 'none', [ADDED]: 1 })).toEqual({
      ok: false,
      error: '/leases: must be a list, not a string',
      isUnknownType: false,
    })
    expect(
      readAny({ ...register, capabilities: { ...register.capabilities, os: 1, [ADDED]: 1 } }),
    ).toMatchObject({ ok: false, error: '/capabilities/os: must be a string, not 1' })
  })
})

describe('a frame of a type that this version does not know', () => {
  test.each(['run-poem', 'constructor', '__proto__', ''])('%p is told apart from a malformed one', (type) => {
    for (const read of [
      readWorkerFrame(JSON.stringify({ type }), true),
      readHostFrame(JSON.stringify({ type })),
    ])
      expect(read).toMatchObject({ ok: false, isUnknownType: true })
  })

  test.each([{}, { type: 1 }, [], null, 'x'])('%p has no type and is malformed', (frame) => {
    for (const read of [readWorkerFrame(JSON.stringify(frame), true), readHostFrame(JSON.stringify(frame))])
      expect(read).toMatchObject({ ok: false, isUnknownType: false })
  })

  test('is malformed when its JSON could harm the process', () => {
    expect(readWorkerFrame('{"type":"run-poem","__proto__":{}}', true)).toMatchObject({
      isUnknownType: false,
    })
  })
})
