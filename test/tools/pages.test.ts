/** The sizes of the pages: what the first load needs, and each part that is loaded later. */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { expect, test } from '@jest/globals'
import { firstLoad } from '../../build/pages.mjs'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const folderOf = (page: string): string => join(root, 'dist', 'web', page)
const folder = folderOf('dashboard')
const metafileOf = (page: string): Parameters<typeof firstLoad>[0] =>
  JSON.parse(readFileSync(`${folderOf(page)}.meta.json`, 'utf8'))
const { outputs } = JSON.parse(readFileSync(`${folder}.meta.json`, 'utf8'))
const packedKilobytes = (name: string, from = folder): number =>
  gzipSync(readFileSync(join(from, name))).byteLength / 1_000

/** Kilobytes of a part and of what only it loads, by the beginning of its name. */
const CEILINGS: Readonly<Record<string, number>> = {
  terminal: 110,
  'render-markdown': 32,
  'chart-drawing': 28,
}
const PART_MAX = 24

test.each([
  ['dashboard', 45],
  ['inspector', 60],
])('the first load of the %s is at most %s kB', (page, kilobytesMax) => {
  const names = firstLoad(metafileOf(page))
  expect(names.length).toBeGreaterThan(1)
  const sizes = names.map((name) => packedKilobytes(name, folderOf(page)))
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(kilobytesMax)
})

test('the charts of the inspector are not in its scripts, and carry no styles of their own', () => {
  const scripts = readdirSync(join(folderOf('inspector'), 'assets')).map((name) =>
    readFileSync(join(folderOf('inspector'), 'assets', name), 'utf8'),
  )
  expect(scripts.filter((text) => text.includes('e:preparing&gt;running'))).toEqual([])
  const charts = readFileSync(join(folderOf('inspector'), 'charts.json'), 'utf8')
  expect(charts).toContain('viewBox')
  expect(charts).not.toMatch(/<style|style=/)
})

test('no later part is larger than its ceiling', () => {
  const large = readdirSync(join(folder, 'assets'))
    .map((name) => ({ name, size: packedKilobytes(join('assets', name)) }))
    .filter(
      ({ name, size }) =>
        size > (CEILINGS[basename(name).replace(/-[A-Z0-9]{8}\.(js|css)$/, '')] ?? PART_MAX),
    )
  expect(large).toEqual([])
})

test('heavy libraries are loaded only when something needs them', () => {
  const first = new Set(firstLoad({ outputs }))
  const inputs = Object.entries<{ inputs: object }>(outputs)
    .filter(([path]) => first.has(`assets/${basename(path)}`))
    .flatMap(([, output]) => Object.keys(output.inputs))
  const heavy = /node_modules\/(uplot|marked|dompurify|@xterm|typebox|ansi_up|parse-diff)\//
  expect(inputs.filter((input) => heavy.test(input))).toEqual([])
})
