/** Reduced lists of pull requests read the same as complete lists. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { PULL_LIST_PROJECTION } from '../../../../providers/codehost/github/lists.ts'
import { toPullFacts } from '../../../../providers/codehost/github/records.ts'

const strange = fc.jsonValue({ maxDepth: 1 })
const or = <T>(usual: fc.Arbitrary<T>) => fc.oneof({ weight: 4, arbitrary: usual }, strange)
const instant = or(fc.constantFrom('2026-01-02T03:04:05Z', '2026-02-02T03:04:05Z', null))
const side = or(fc.record({ ref: or(fc.string()), repo: strange }))

const pull = fc.record(
  {
    number: or(fc.integer({ min: 1, max: 99 })),
    html_url: or(fc.constant('https://github.com/acme/app/pull/1')),
    title: or(fc.string()),
    state: or(fc.constantFrom('open', 'closed')),
    draft: or(fc.boolean()),
    user: or(fc.record({ login: or(fc.string()), site_admin: fc.boolean() })),
    base: side,
    head: side,
    created_at: instant,
    updated_at: instant,
    merged_at: instant,
    body: fc.string(),
  },
  { requiredKeys: ['number', 'html_url', 'created_at'] },
)

test('a reduced pull request reads the same as the complete one', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(pull, strange), { maxLength: 5 }), (pulls) => {
      const whole: unknown[] = JSON.parse(JSON.stringify(pulls))
      const short: unknown[] = JSON.parse(PULL_LIST_PROJECTION.apply(JSON.stringify(pulls)))
      expect(short.map(toPullFacts)).toEqual(whole.map(toPullFacts))
    }),
  )
})

test('the repositories of each pull request are left out', () => {
  const repo = { description: 'x'.repeat(10_000) }
  const text = JSON.stringify([{ number: 7, base: { ref: 'main', repo }, head: { ref: 'fix', repo } }])
  expect(JSON.parse(PULL_LIST_PROJECTION.apply(text))).toEqual([
    { number: 7, user: {}, base: { ref: 'main' }, head: { ref: 'fix' } },
  ])
})

test.each(['', '<html>', '{"message":"Moved"}', '[{"__proto__":{}}]'])('%j stays as it is', (text) => {
  expect(PULL_LIST_PROJECTION.apply(text)).toBe(text)
})
