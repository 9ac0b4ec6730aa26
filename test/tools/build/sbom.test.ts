/** The bill of materials in the worker package, compared with the lock file and with the licences that the package has. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
import { formatSbom, packagesIn } from '../../../build/sbom.mjs'
import { archiveOf } from '../../../build/worker-package.mjs'

const root = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))))
const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as Parameters<
  typeof formatSbom
>[1]
const readPacked = (name: string): string =>
  execFileSync('tar', ['-xzOf', archiveOf(process.arch), `switchyard-worker-0.1.0/${name}`], {
    encoding: 'utf8',
  })

interface Component {
  readonly group?: string
  readonly name: string
  readonly version: string
  readonly purl: string
  readonly hashes: readonly { readonly alg: string; readonly content: string }[]
  readonly licenses?: readonly object[]
}
const nameOf = ({ group, name }: Component) => (group === undefined ? name : `${group}/${name}`)

const sbom = JSON.parse(readPacked('sbom.cdx.json')) as { specVersion: string; components: Component[] }

test('it names what the package holds, each part once and with the version and the hash of the lock file', () => {
  expect(sbom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.5' })
  const names = sbom.components.map(nameOf)
  expect(names).toEqual([...new Set(names)].sort())
  for (const component of sbom.components) {
    const locked = lock.packages[`node_modules/${nameOf(component)}`]
    expect(component.version).toBe(locked?.version)
    expect(locked?.dev).toBeUndefined()
    const [{ alg, content } = { alg: '', content: '' }] = component.hashes
    expect(`${alg.replace('-', '').toLowerCase()}-${Buffer.from(content, 'hex').toString('base64')}`).toBe(
      locked?.integrity,
    )
    expect(component.licenses).toHaveLength(1)
    expect(component.purl).toMatch(/^pkg:npm\/(%40[\w.-]+\/)?[\w.-]+@\d/)
  }
})

test('it names the parts whose licences the package has, and the native ones of its architecture', () => {
  const heads = [...readPacked('THIRD-PARTY.txt').matchAll(/^={80}\n(\S+) (\S+) \(.*\)\n={80}$/gm)]
  // The terminal's add-on has the licence of the package that loads it, which is not packed.
  const licensed = heads.map(([, name = '']) => name).filter((name) => name !== '@lydell/node-pty')
  const native = [`@lmdb/lmdb-linux-${process.arch}`, `@lydell/node-pty-linux-${process.arch}`]
  expect(sbom.components.map(nameOf)).toEqual([...licensed, ...native].sort())
})

test('paths name their packages, and a package that the lock file does not know is an error', () => {
  expect(
    packagesIn(['node_modules/b/index.js', 'bin/x.ts', 'node_modules/@a/c/d.js', 'node_modules/b/other.js']),
  ).toEqual(['@a/c', 'b'])
  expect(() => formatSbom(['unknown'], { packages: {} })).toThrow('unknown')
  const { components } = JSON.parse(
    formatSbom(['a'], {
      packages: { 'node_modules/a': { version: '1.0.0', license: '(MIT OR Apache-2.0)' } },
    }),
  ) as { components: Component[] }
  expect(components[0]?.licenses).toEqual([{ expression: '(MIT OR Apache-2.0)' }])
})
