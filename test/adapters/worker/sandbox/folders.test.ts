/** Tests of sandbox folders: ownership checks, and complete deletion whatever an agent left behind. */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import {
  createOwnedFolder,
  findFolderProblem,
  findFreeNumber,
  isSandboxUid,
  removeFolderTree,
  SANDBOX_GID,
  SANDBOX_UID_BASE,
  SANDBOX_USERS_MAX,
  sandboxUserOf,
} from '../../../../worker/sandbox/folders.ts'
import { createSandboxSetup, ORDINARY_UID, run, sh } from '../../../support/sandbox.ts'
import { isRoot, testAsRoot } from '../../../support/skips.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const root = { euid: 0, egid: 0 }
const user = { euid: 1000, egid: 100 }

describe('sandbox users', () => {
  test('have their own uids under root, and the uid of the worker otherwise', () => {
    expect(sandboxUserOf(7, root)).toEqual({ number: 7, uid: SANDBOX_UID_BASE + 7, gid: SANDBOX_GID })
    expect(sandboxUserOf(7, user)).toEqual({ number: 7, uid: 1000, gid: 100 })
    expect([
      isSandboxUid(sandboxUserOf(SANDBOX_USERS_MAX - 1, root).uid),
      isSandboxUid(0),
      isSandboxUid(1000),
    ]).toEqual([true, false, false])
  })

  test('have uids above those of systemd and below 2^31', () => {
    // systemd: dynamic users 61184–65519, containers 524288–1879048191.
    expect(SANDBOX_UID_BASE).toBeGreaterThan(1_879_048_191)
    expect(SANDBOX_UID_BASE + SANDBOX_USERS_MAX).toBeLessThan(2 ** 31)
  })

  test('a number out of bounds throws', () => {
    for (const number of [-1, 0.5, SANDBOX_USERS_MAX, Number.NaN])
      expect(() => sandboxUserOf(number, root)).toThrow('no sandbox user')
  })

  test('the first free number from a given one on is used, wrapping around after the last', () => {
    expect([findFreeNumber([], 0), findFreeNumber([0, 1, 3], 0), findFreeNumber([2], 0)]).toEqual([0, 2, 0])
    expect([
      findFreeNumber([1], 7),
      findFreeNumber([7, 8], 7),
      findFreeNumber([SANDBOX_USERS_MAX - 1], SANDBOX_USERS_MAX - 1),
    ]).toEqual([7, 9, 0])
  })
})

describe('a folder', () => {
  test('is created with mode 0700 and accepted for its user', async () => {
    const fixture = createSandboxSetup()
    const path = join(fixture.root, 'more')
    expect(await createOwnedFolder(path, fixture.sandboxUser)).toEqual({ ok: true, value: undefined })
    expect(lstatSync(path)).toMatchObject({ uid: fixture.sandboxUser.uid, mode: 0o40700 })
    expect(findFolderProblem(path, fixture.sandboxUser)).toBeUndefined()
    // The check passes even when the agent removed its own permissions.
    chmodSync(path, 0)
    expect(findFolderProblem(path, fixture.sandboxUser)).toBeUndefined()
  })

  testAsRoot('that its user could not reach is refused with a fix', async () => {
    const fixture = createSandboxSetup()
    const closed = join(fixture.root, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    expect(await createOwnedFolder(join(closed, 'work'), fixture.sandboxUser)).toMatchObject({
      ok: false,
      refusal: {
        message: expect.stringMatching(new RegExp(`cannot enter ${closed}; .* chmod o\\+x ${closed}$`)),
      },
    })
    expect(existsSync(join(closed, 'work'))).toBe(false)
  })
})

describe('a deletion removes everything', () => {
  const planted = `
    mkdir -p locked/in/side && echo x > locked/in/side/f && chmod 0 locked/in/side locked/in locked
    ln -s "$OUTSIDE" link; ln -s / slash; mkfifo pipe; : > "$(printf 'new\\nline\\377')"; mkdir -- -rf
    python3 - <<'EOF' || exit 1
import os
name = 'd' * 200
for _ in range(120):
    os.mkdir(name); os.chdir(name)
open('deep', 'w').close(); os.symlink(os.environ['OUTSIDE'], 'link')
os.chmod('.', 0)
EOF`

  testAsRoot('by root', () => deletesPlanted(undefined))
  test('by an ordinary user', () => deletesPlanted(ORDINARY_UID))

  async function deletesPlanted(uid: number | undefined): Promise<void> {
    const fixture = createSandboxSetup()
    const kept = join(tempFolder(), 'kept')
    mkdirSync(kept)
    writeFileSync(join(kept, 'file'), 'kept')
    const ran = await run(fixture.order(sh(planted), { environment: { OUTSIDE: kept } }))
    expect(ran).toMatchObject({ end: { code: 0 } })
    const work = join(fixture.root, 'work')
    await actAs(uid, work, () => removeFolderTree(work))
    expect(existsSync(work)).toBe(false)
    expect(readFileSync(join(kept, 'file'), 'utf8')).toBe('kept')
  }

  test('also below the maximum depth, and with more names than one batch reads', async () => {
    const fixture = tempFolder()
    const script = `
import os
for n in range(500): open(f'file-{n}', 'w').close(); os.mkdir(f'folder-{n}')
for n in range(1500): open('f', 'w').close(); os.mkdir('d'); os.mkdir('e'); os.chdir('d')`
    mkdirSync(join(fixture, 'work'))
    execFileSync('python3', ['-c', script], { cwd: join(fixture, 'work') })
    await removeFolderTree(join(fixture, 'work'))
    expect(existsSync(join(fixture, 'work'))).toBe(false)
  })

  test('but follows no link in place of the folder', async () => {
    const fixture = tempFolder()
    mkdirSync(join(fixture, 'target'))
    symlinkSync(join(fixture, 'target'), join(fixture, 'link'))
    await removeFolderTree(join(fixture, 'link'))
    expect([existsSync(join(fixture, 'link')), existsSync(join(fixture, 'target'))]).toEqual([false, true])
  })

  test('and does nothing for a missing folder', async () => {
    await removeFolderTree(join(tempFolder(), 'never'))
  })
})

/** Runs `act` as a user without rights to other users' files. */
async function actAs(uid: number | undefined, path: string, act: () => Promise<void>): Promise<void> {
  if (uid === undefined || !isRoot) return act()
  execFileSync('chown', ['-hR', `${uid}:${uid}`, dirname(path)])
  process.seteuid?.(uid)
  try {
    await act()
  } finally {
    process.seteuid?.(0)
  }
}
