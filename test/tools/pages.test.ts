/** The sizes of the pages: what the first load needs, and each part that is loaded later. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { expect, test } from '@jest/globals'
import { firstLoad } from '../../build/pages.mjs'

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const folderOf = (page: string): string => join(root, 'dist', 'web', page)
const folder = folderOf('dashboard')
const metafileOf = (page: string): Parameters<typeof firstLoad>[0] =>
  JSON.parse(readFileSync(`${folderOf(page)}.meta.json`, 'utf8'))
const { outputs } = JSON.parse(readFileSync(`${folder}.meta.json`, 'utf8'))
/** The plain files of a folder; compressed forms lie beside them. */
const plainNames = (from: string): string[] => readdirSync(from).filter((name) => !/\.(br|gz)$/.test(name))
const packedKilobytes = (name: string, from = folder): number =>
  gzipSync(readFileSync(join(from, name))).byteLength / 1_000

/** Kilobytes of a part and of what only it loads, by the beginning of its name. */
const CEILINGS: Readonly<Record<string, number>> = {
  terminal: 110,
  'render-markdown': 32,
  'chart-drawing': 28,
  // The parts that several pages use are in one file.
  shared: 26,
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
  const scripts = plainNames(join(folderOf('inspector'), 'assets')).map((name) =>
    readFileSync(join(folderOf('inspector'), 'assets', name), 'utf8'),
  )
  expect(scripts.filter((text) => text.includes('e:preparing&gt;running'))).toEqual([])
  const charts = readFileSync(join(folderOf('inspector'), 'charts.json'), 'utf8')
  expect(charts).toContain('viewBox')
  expect(charts).not.toMatch(/<style|style=/)
})

test('no later part is larger than its ceiling', () => {
  const large = plainNames(join(folder, 'assets'))
    .map((name) => ({ name, size: packedKilobytes(join('assets', name)) }))
    .filter(
      ({ name, size }) =>
        size > (CEILINGS[basename(name).replace(/-[A-Z0-9]{8}\.(js|css)$/, '')] ?? PART_MAX),
    )
  expect(large).toEqual([])
})

test.each(['dashboard', 'inspector'])('texts of the %s lie compressed beside the plain ones', (page) => {
  const from = folderOf(page)
  const names = readdirSync(from, { recursive: true, encoding: 'utf8' })
  const texts = names.filter((name) => /\.(js|css|html|json)$/.test(name))
  expect(texts.length).toBeGreaterThan(3)
  for (const name of texts.filter((text) => statSync(join(from, text)).size > 1024)) {
    const plain = readFileSync(join(from, name))
    const [small, larger] = ['br', 'gz'].map((form) => readFileSync(join(from, `${name}.${form}`)))
    expect([name, brotliDecompressSync(small ?? '').equals(plain)]).toEqual([name, true])
    expect([name, gunzipSync(larger ?? '').equals(plain)]).toEqual([name, true])
  }
})

test('heavy libraries are loaded only when something needs them', () => {
  const first = new Set(firstLoad({ outputs }))
  const inputs = Object.entries<{ inputs: object }>(outputs)
    .filter(([path]) => first.has(`assets/${basename(path)}`))
    .flatMap(([, output]) => Object.keys(output.inputs))
  const heavy = /node_modules\/(uplot|marked|dompurify|@xterm|typebox|ansi_up|parse-diff)\//
  expect(inputs.filter((input) => heavy.test(input))).toEqual([])
})
