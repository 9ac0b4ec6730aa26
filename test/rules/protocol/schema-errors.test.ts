/**
 * The message and the verdict come from two readers of one schema; these tests compare them.
 */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import Type, { type TSchema } from 'typebox'
import { ConfigPatch, ServiceConfig, StoredConfig } from '../../../protocol/config.ts'
import { ConnectResponse } from '../../../protocol/connect.ts'
import { DashboardFrame } from '../../../protocol/dashboard.ts'
import { HostFrame, hostFrames, WorkerFrame, workerFrames } from '../../../protocol/frames.ts'
import { createChecker } from '../../../protocol/parse.ts'
import { PullDetail } from '../../../protocol/pulls.ts'
import { helperRoutes, type Route, routes } from '../../../protocol/routes.ts'
import { Run, RunEvent } from '../../../protocol/run.ts'
import { asShape, explainMismatch } from '../../../protocol/schema-errors.ts'
import { measureCpuMs } from '../../support/cpu-time.ts'
import * as examples from './examples.ts'

const NOTHING_FOUND = '/: is not of the expected form'
const error = (schema: TSchema, value: unknown) => {
  const checked = createChecker(schema)(value)
  return checked.ok ? 'accepted' : checked.error
}

describe('messages', () => {
  const Example = Type.Object(
    {
      port: Type.Integer({ minimum: 0, maximum: 9 }),
      mode: Type.Optional(Type.Enum(['slow', 'fast'])),
      token: Type.Optional(
        Type.String({
          maxLength: 4,
          pattern: '^[a-z]*$',
          'x-expects': 'lower-case letters',
          'x-secret': true,
        }),
      ),
      inner: Type.Optional(
        Type.Object({ list: Type.Array(Type.Number(), { maxItems: 2 }) }, { additionalProperties: false }),
      ),
    },
    { additionalProperties: false },
  )

  test.each([
    [7, '/: must be an object, not 7'],
    [{}, '/port: is required'],
    [{ port: 'x' }, '/port: must be a whole number, not a string'],
    [{ port: 1.5 }, '/port: must be a whole number, not 1.5'],
    [{ port: null }, '/port: must be a whole number, not null'],
    [{ port: 10 }, '/port: must be at most 9, not 10'],
    [{ port: 1, mode: 'quick' }, '/mode: must be one of "slow", "fast", not "quick"'],
    [{ port: 1, mode: ['slow'] }, '/mode: must be one of "slow", "fast", not a list'],
    [{ port: 1, mode: 'q'.repeat(100) }, '/mode: must be one of "slow", "fast", not a string'],
    [{ port: 1, nope: 1 }, '/nope: unknown key'],
    [{ prot: 1 }, '/prot: unknown key, did you mean port?'],
    [{ port: 1, inner: { list: [1, 'x'] } }, '/inner/list/1: must be a number, not a string'],
    [{ port: 1, inner: { list: [1, 2, 3] } }, '/inner/list: must have at most 2 entries'],
    [{ port: 1, inner: { list: [], 'a/b~c': 1 } }, '/inner/a/b~c: unknown key'],
    [{ nope: 1, inner: { list: 'x' } }, '/inner/list: must be a list, not a string'],
  ])('%j', (value, message) => {
    expect(error(Example, value)).toBe(message)
  })

  test('a secret is never repeated, whatever the fault', () => {
    for (const token of [12345678, 'S3CRET', 's3cret', ['s3cret'], { s3cret: 1 }, true]) {
      expect(error(Example, { port: 1, token })).not.toMatch(/s3cret|1234|true/i)
    }
    expect(error(Example, { port: 1, token: 'S3' })).toBe('/token: must be lower-case letters')
  })

  test('a path has a limited length and no control characters', () => {
    const long = error(Example, { port: 1, [`x\u0000${'y'.repeat(5000)}`]: 1 })
    expect(long.length).toBeLessThan(400)
    expect(long).not.toContain('\u0000')
  })

  test('the message about a union concerns the branch that the value names', () => {
    expect(
      error(RunEvent, { runId: 'r', index: 0, at: examples.at, type: 'log', stream: 'out', text: '' }),
    ).toBe('/stream: must be one of "stdout", "stderr", "system", not "out"')
    expect(error(RunEvent, { type: 'logg' })).toMatch(/^\/type: must be one of "status", "log", /)
    expect(error(RunEvent, {})).toBe('/type: is required')
    expect(error(DashboardFrame, { type: 'tickets', tickets: [{}] })).toMatch(
      /^\/tickets\/0\/[a-zA-Z]+: is required$/,
    )
    expect(error(ConfigPatch, { server: { port: 'x' } })).toBe(
      '/server/port: must be a whole number or null, not a string',
    )
    expect(error(ConfigPatch, { codehost: { token: 42 } })).toBe(
      '/codehost/token: must be a string or null, not a number',
    )
  })
})

describe('the message agrees with the compiled schema', () => {
  const cases: [string, TSchema, unknown][] = [
    ['Run', Run, examples.run],
    ['ServiceConfig', ServiceConfig, examples.maskedConfig],
    ['StoredConfig', StoredConfig, examples.maskedConfig],
    ['ConfigPatch', ConfigPatch, examples.maskedConfig],
    ['PullDetail', PullDetail, examples.pullDetail],
    ['ConnectResponse', ConnectResponse, { status: 'redirect', provider: 'tracker', url: 'https://x' }],
    ['DashboardFrame', DashboardFrame, { type: 'run-event', event: examples.events[2] }],
    ['WorkerFrame', WorkerFrame, examples.workerFrameExamples['run-complete']],
    ['HostFrame', HostFrame, examples.hostFrameExamples.dispatch],
    ...examples.events.map((event): [string, TSchema, unknown] => [`event ${event.type}`, RunEvent, event]),
  ]

  test.each(cases)('%s', (_, schema, example) => {
    expect(error(schema, example)).toBe('accepted')
    const paths = pathsIn(example)
    const harm = fc.record({
      path: fc.constantFrom(...paths),
      by: fc.constantFrom('replace', 'remove', 'add'),
      key: fc.oneof(fc.string(), fc.constantFrom('type', 'status', 'toString', 'a\nb')),
      value: fc.oneof(
        fc.jsonValue({ maxDepth: 2 }),
        fc.constantFrom('', '***', 'x'.repeat(300), -1, 0.5, 1e308),
      ),
    })
    fc.assert(
      fc.property(fc.array(harm, { minLength: 1, maxLength: 3 }), (harms) => {
        const value = harms.reduce(harmed, structuredClone(example))
        const verdict = createChecker(schema)(value).ok
        expect(explainMismatch(schema, value) === NOTHING_FOUND).toBe(verdict)
      }),
      { numRuns: 300 },
    )
  })

  test('only keywords that can be explained are used', () => {
    const known = new Set(
      (
        'title description type const enum anyOf properties required patternProperties additionalProperties ' +
        'maxProperties minProperties items minItems maxItems minLength maxLength pattern minimum maximum ' +
        'exclusiveMinimum x-expects x-expects-key x-secret x-added'
      ).split(' '),
    )
    for (const schema of everySchema()) {
      for (const keyword of keywordsOf(schema)) expect(known).toContain(keyword)
    }
  })

  test('explaining a large wrong value takes time linear in its size', () => {
    const wide = {
      type: 'tickets',
      tickets: Array.from({ length: 20_000 }, () => examples.ticket).concat([
        { ...examples.ticket, priority: 3 },
      ]),
    }
    Object.assign(wide.tickets.at(-1) ?? {}, { priority: 9 })
    let message = ''
    const tookMs = measureCpuMs(() => {
      message = error(DashboardFrame, wide)
    })
    expect(message).toBe('/tickets/20000/priority: must be at most 4, not 9')
    expect(tookMs).toBeLessThan(10_000)
  })
})

function everySchema(): TSchema[] {
  const rows: Route[] = [...Object.values<Route>(routes), ...Object.values<Route>(helperRoutes)]
  const parts = rows.flatMap(({ params, query, body, response }) => [params, query, body, response])
  return [...parts, StoredConfig, ...Object.values(workerFrames), ...Object.values(hostFrames)].filter(
    (part): part is TSchema => typeof part === 'object',
  )
}

function keywordsOf(schema: TSchema): string[] {
  const shape = asShape(schema)
  const inner = [
    ...Object.values(shape.properties ?? {}),
    ...Object.values(shape.patternProperties ?? {}),
    ...(shape.anyOf ?? []),
    ...(shape.items === undefined ? [] : [shape.items]),
  ]
  return [...Object.keys(shape).filter((key) => !key.startsWith('~')), ...inner.flatMap(keywordsOf)]
}

type Path = readonly string[]

function pathsIn(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [path]
  return [path, ...Object.entries(value).flatMap(([key, inner]) => pathsIn(inner, [...path, key]))]
}

function harmed(root: unknown, harm: { path: Path; by: string; key: string; value: unknown }): unknown {
  const key = harm.path.at(-1)
  if (key === undefined) return harm.by === 'replace' ? harm.value : root
  const parent = harm.path.slice(0, -1).reduce<unknown>((at, step) => Reflect.get(Object(at), step), root)
  if (typeof parent !== 'object' || parent === null) return root
  if (harm.by === 'remove' && !Array.isArray(parent)) Reflect.deleteProperty(parent, key)
  else Reflect.set(parent, harm.by === 'add' && !Array.isArray(parent) ? harm.key : key, harm.value)
  return root
}
