/** The worker package as an archive: what it holds, how large it is, and where the add-ons of another machine come from. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { archiveOf, makeWorkerPackage } from '../../../build/worker-package.mjs'
import { tempFolder } from '../../support/temp-folder.ts'

/** Raise these only for something that every worker needs; docs/fleet/worker-package.md states the size. */
const ARCHIVE_BYTES_MAX = 2.25 * 1024 * 1024
const UNPACKED_BYTES_MAX = 9 * 1024 * 1024

const built = archiveOf(process.arch)
/** Each line of tar's list: mode, owner, size, name. */
const listed = execFileSync('tar', ['-tvzf', built], { encoding: 'utf8' })
  .trim()
  .split('\n')
  .map((line) => line.split(/\s+/))
const names = listed.map((fields) => fields.at(-1) ?? '')

describe('the archive that the build makes', () => {
  test('has the same bytes when it is made again', async () => {
    const { content } = await makeWorkerPackage()
    expect(content.equals(readFileSync(built))).toBe(true)
  })

  test('is one folder with the version, of root, with modes that do not depend on the umask', () => {
    expect(new Set(names.map((name) => name.split('/')[0]))).toEqual(new Set(['switchyard-worker-0.1.0']))
    expect(new Set(listed.map(([mode, owner]) => `${mode} ${owner}`))).toEqual(
      new Set(['drwxr-xr-x 0/0', '-rw-r--r-- 0/0', '-rwxr-xr-x 0/0']),
    )
  })

  test('holds the two native add-ons that a worker loads, and nothing of the web server', () => {
    expect(
      names.filter((name) => name.endsWith('.node')).map((name) => name.split('/').slice(1).join('/')),
    ).toEqual(['inside/pty.node', 'native/lmdb.node'])
    const program = execFileSync('tar', ['-xzOf', built], { maxBuffer: UNPACKED_BYTES_MAX }).toString(
      'latin1',
    )
    // A match of the whole text would be printed.
    expect(/from ["'](?:uWebSockets\.js|pino|ssh2)["']/.exec(program)?.[0]).toBeUndefined()
  })

  test('stays small', () => {
    const unpacked = listed.reduce((sum, [, , size]) => sum + Number(size), 0)
    expect([readFileSync(built).length < ARCHIVE_BYTES_MAX, unpacked < UNPACKED_BYTES_MAX]).toEqual([
      true,
      true,
    ])
  })

  test('has the licence of each part that others wrote', () => {
    const notices = execFileSync('tar', ['-xzOf', built, 'switchyard-worker-0.1.0/THIRD-PARTY.txt'], {
      encoding: 'utf8',
    })
    const parts = notices.split(/^={80}$/m).slice(1)
    const texts = new Map(
      parts.flatMap((head, index) => (index % 2 === 0 ? [[head.trim(), parts[index + 1] ?? '']] : [])),
    )
    expect([...texts.keys()].map((head) => head.replace(/ .*/, ''))).toEqual(
      expect.arrayContaining([
        '@lydell/node-pty',
        'commander',
        'lmdb',
        'ordered-binary',
        'pino',
        'undici',
        'xstate',
      ]),
    )
    expect([...texts].filter(([, text]) => text.trim().length < 200)).toEqual([])
    expect(notices).toMatch(/OpenLDAP Public License/)
  })
})

describe('the archive for another architecture', () => {
  /** A folder with tarballs as `npm pack` names them, and the lock file that belongs to it. */
  function makeTarballs() {
    const folder = tempFolder()
    const packages: Record<string, object> = {}
    for (const [name, file] of [
      ['@lmdb/lmdb-linux-arm64', 'node.napi.glibc.node'],
      ['@lydell/node-pty-linux-arm64', 'pty.node'],
    ] as const) {
      const content = join(folder, 'package')
      mkdirSync(content, { recursive: true })
      writeFileSync(join(content, file), `${name} for arm64`)
      const tarball = join(folder, `${name.slice(1).replace('/', '-')}-1.2.3.tgz`)
      execFileSync('tar', ['-czf', tarball, '-C', folder, `package/${file}`])
      const digest = createHash('sha512').update(readFileSync(tarball)).digest('base64')
      packages[`node_modules/${name}`] = { version: '1.2.3', integrity: `sha512-${digest}` }
    }
    return { tarballs: folder, lock: { packages } }
  }

  test('has the add-ons of the tarballs', async () => {
    const { content } = await makeWorkerPackage({ arch: 'arm64', ...makeTarballs() })
    const read = (name: string) =>
      execFileSync('tar', ['-xzO', '-f', '-', `switchyard-worker-0.1.0/${name}`], {
        input: content,
      }).toString()
    expect([read('native/lmdb.node'), read('inside/pty.node')]).toEqual([
      '@lmdb/lmdb-linux-arm64 for arm64',
      '@lydell/node-pty-linux-arm64 for arm64',
    ])
    expect(JSON.parse(read('package.json'))).toMatchObject({ cpu: ['arm64'], os: ['linux'] })
  })

  test('is refused with a tarball that is not the one of package-lock.json', async () => {
    const { tarballs, lock } = makeTarballs()
    writeFileSync(join(tarballs, 'lydell-node-pty-linux-arm64-1.2.3.tgz'), 'something else')
    await expect(makeWorkerPackage({ arch: 'arm64', tarballs, lock })).rejects.toThrow(
      /@lydell\/node-pty-linux-arm64@1\.2\.3 is not what package-lock\.json names: sha512-/,
    )
  })

  test('names the command that gets a missing tarball, and the architectures that there are', async () => {
    await expect(
      makeWorkerPackage({ arch: 'arm64', tarballs: tempFolder(), lock: makeTarballs().lock }),
    ).rejects.toThrow(/npm pack @lmdb\/lmdb-linux-arm64@1\.2\.3/)
    await expect(makeWorkerPackage({ arch: 'mips' })).rejects.toThrow(/mips.*x64 and arm64/)
  })
})
