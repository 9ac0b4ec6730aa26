/** Parts of the pages alone in a real browser, where a test decides in which order they get what they ask for. */
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
import { build } from 'esbuild'
import type { Page } from 'playwright-core'
import { openPage } from '../support/browser.ts'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const ORIGIN = 'http://parts.test'

/** @param program defines `draw`, which draws the part */
async function openPart(program: string): Promise<Page> {
  const page = await openPage()
  await page.route(`${ORIGIN}/`, (route) =>
    route.fulfill({ contentType: 'text/html', body: '<!doctype html><body></body>' }),
  )
  await page.goto(ORIGIN)
  const { outputFiles } = await build({
    stdin: { contents: program, resolveDir: root, loader: 'tsx' },
    bundle: true,
    format: 'iife',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    write: false,
  })
  await page.addScriptTag({ content: outputFiles[0]?.text ?? '' })
  return page
}

test('a list asks for more whenever its end is in view and there is another answer', async () => {
  const page = await openPart(`
    import { render } from 'preact'
    import { VirtualRows } from './web/elements/virtual-rows.tsx'
    window.ends = 0
    const onEnd = () => { window.ends += 1 }
    window.draw = (version) => render(
      <VirtualRows count={3} height={20} label="Rows" keyOf={String} row={String} version={version} onEnd={onEnd} />,
      document.body,
    )`)
  const endsAfter = async (version: number): Promise<number> => {
    await page.evaluate(`draw(${version})`)
    // Effects run after a frame.
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => setTimeout(done)))')
    return page.evaluate('ends')
  }
  const before = await endsAfter(1)
  expect(before).toBeGreaterThan(0)
  expect(await endsAfter(1)).toBe(before)
  expect(await endsAfter(2)).toBe(before + 1)
})

test('the failure of a question ends with the question', async () => {
  const page = await openPart(`
    import { render } from 'preact'
    import { live } from './web/dashboard/state/live.ts'
    import { useRequest } from './web/dashboard/state/use-request.ts'
    live.value = { state: 'live' }
    const read = (name) => (name === 'first' ? Promise.reject(new Error('refused')) : new Promise(() => {}))
    function Part({ name }) {
      const { error, isLoading } = useRequest(name, () => read(name))
      return <p>{name}: {error?.message ?? 'no error'}{isLoading ? ', loading' : ''}</p>
    }
    window.draw = (name) => render(<Part name={name} />, document.body)`)
  await page.evaluate("draw('first')")
  await page.getByText('first: refused', { exact: true }).waitFor()
  await page.evaluate("draw('second')")
  await page.getByText('second: no error, loading', { exact: true }).waitFor()
})

test('an answer about costs does not replace a newer one', async () => {
  const page = await openPart(`
    import { render } from 'preact'
    import { runs } from './web/dashboard/state/records.ts'
    import { useSpentSince } from './web/dashboard/state/spent.ts'
    const since = Date.parse('2026-11-20T00:00:00Z')
    window.setCost = (costUsd) => {
      const instants = { createdAt: '2026-11-18T10:00:00Z', finishedAt: '2026-11-21T10:00:00Z' }
      const run = { id: 'run-1', status: 'completed', ...instants, costs: [{ label: 'run', costUsd }] }
      runs.value = new Map([[run.id, run]])
    }
    function Part() {
      const spent = useSpentSince(since)
      return <p>spent: {spent === undefined ? 'unknown' : spent.map(({ entry }) => entry.costUsd).join()}</p>
    }
    window.draw = () => render(<Part />, document.body)`)
  const event = { type: 'cost', index: 0, at: '2026-11-21T10:00:00Z', entry: { label: 'run' } }
  let asked = 0
  let answerFirst = (): void => {}
  const isHeld = new Promise<void>((resolve) => {
    answerFirst = resolve
  })
  await page.route(/\/api\/runs\/run-1\/events/, async (route) => {
    asked += 1
    if (asked === 1) await isHeld
    await route.fulfill({ json: [event] })
  })
  const isAsked = page.waitForRequest(/events/)
  await page.evaluate('setCost(1), draw()')
  await isAsked
  await page.evaluate('setCost(2)')
  await page.getByText('spent: 2', { exact: true }).waitFor()
  const answered = page.waitForResponse(/events/)
  answerFirst()
  await answered
  // Time enough to draw the older answer.
  await page.waitForTimeout(300)
  expect(await page.textContent('p')).toBe('spent: 2')
})
