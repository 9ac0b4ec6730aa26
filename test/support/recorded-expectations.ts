/**
 * Recorded expectations keep trails and transcripts in a data file beside the test: `lease.test.ts` reads
 * `lease.recorded.txt`, one section a test.
 *
 * `npm run test:update` rewrites these files from what the code does; the review reads the difference. A section
 * that no test asks for fails the test file, so that none goes stale.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { afterAll, expect } from '@jest/globals'

const HEADING = '# '
const EMPTY = '(nothing)'

const isUpdating = process.env.UPDATE_EXPECTATIONS === '1'
const recorded = new Map<string, readonly string[]>()
const seen = new Map<string, readonly string[]>()
let isRead = false

/** Compares these lines with the section of the running test; a second call in one test has a section of its own. */
export function expectRecorded(lines: readonly string[]): void {
  readOnce()
  const title = sectionTitle()
  const actual = lines.length === 0 ? [EMPTY] : [...lines]
  for (const line of actual)
    if (line.includes('\n') || line.startsWith(HEADING) || line === '')
      throw new Error(`this line can't be recorded: ${JSON.stringify(line)}`)
  seen.set(title, actual)
  if (isUpdating) return
  const expected = recorded.get(title)
  if (expected === undefined)
    throw new Error(`nothing is recorded for "${title}": run "npm run test:update" and review the difference`)
  expect(actual).toEqual(expected)
}

afterAll(() => {
  if (seen.size === 0) return
  if (isUpdating) writeIfChanged()
  else if (!('TESTS_ARE_FILTERED' in globalThis)) {
    const stale = [...recorded.keys()].filter((title) => !seen.has(title))
    expect({ sectionsWithoutTest: stale }).toEqual({ sectionsWithoutTest: [] })
  }
})

function sectionTitle(): string {
  const name = expect.getState().currentTestName ?? 'unnamed test'
  for (let count = 1; ; count++) {
    const title = count === 1 ? name : `${name} (${count})`
    if (!seen.has(title)) return title
  }
}

function readOnce(): void {
  if (isRead) return
  isRead = true
  const path = recordedPath()
  for (const [title, lines] of existsSync(path) ? parseRecorded(readFileSync(path, 'utf8')) : [])
    recorded.set(title, lines)
}

function recordedPath(): string {
  const { testPath } = expect.getState()
  if (testPath === undefined) throw new Error('expectations are recorded for tests only')
  return testPath.replace(/\.test\.ts$/, '.recorded.txt')
}

function parseRecorded(text: string): [title: string, lines: readonly string[]][] {
  return text
    .split(/^# /m)
    .slice(1)
    .map((section) => {
      const [title = '', ...lines] = section.trimEnd().split('\n')
      return [title, lines]
    })
}

function writeIfChanged(): void {
  if (process.env.CI === 'true') throw new Error('expectations are not rewritten in CI')
  const text = [...seen].map(([title, lines]) => [HEADING + title, ...lines, ''].join('\n')).join('\n')
  const path = recordedPath()
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) writeFileSync(path, text)
}
