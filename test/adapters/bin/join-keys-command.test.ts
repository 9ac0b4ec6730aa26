/** `switchyard workers join-keys` against a real listener. */
import { execFileSync } from 'node:child_process'
import { expect, test } from '@jest/globals'
import type { CommandContext } from '../../../bin/cli/command/run-command.ts'
import {
  create,
  type JoinKeyCreateOptions,
  type JoinKeyDeleteOptions,
  list,
  remove,
} from '../../../bin/cli/workers/join-keys.ts'
import { configDefaults } from '../../../protocol/config.ts'
import type { JoinKey } from '../../../protocol/join-key.ts'
import { openCommandHost } from '../../support/command-host.ts'
import { JOIN_KEY } from '../../support/fake-host-api.ts'

const at = '2026-03-01T08:00:00.000Z'
const joinKey = (id: string, more: Partial<JoinKey> = {}): JoinKey => ({
  id,
  name: 'spot fleet',
  ephemeral: false,
  createdAt: at,
  workers: 0,
  ...more,
})

async function openHost(...keys: JoinKey[]) {
  const host = await openCommandHost()
  host.hostApi.storedJoinKeys.push(...keys)
  const creating = (options: Partial<JoinKeyCreateOptions>) =>
    host.print((context: CommandContext<JoinKeyCreateOptions>) => create(context, 'spot fleet'), { options })
  const removing = (key: string, options: Partial<JoinKeyDeleteOptions> = {}) =>
    host.print((context: CommandContext<JoinKeyDeleteOptions>) => remove(context, key), { options })
  return { ...host, creating, removing }
}

test('join-keys create prints the key alone, and beside it how it is used', async () => {
  const { creating, hostApi } = await openHost()
  const { out, err } = await creating({ expires: '2d', maxWorkers: 40, ephemeral: true })
  expect(out).toBe(`${JOIN_KEY}\n`)
  expect(err).toContain('up to 40 machines')
  expect(err).toContain('--join-key-file')
  expect(hostApi.storedJoinKeys).toMatchObject([
    { name: 'spot fleet', maxWorkers: 40, ephemeral: true, expiresAt: expect.any(String) },
  ])
})

test('join-keys create prints a command that a shell reads as it stands, whatever the address holds', async () => {
  const { creating, hostApi } = await openHost()
  const publicUrl = 'https://fleet.example/;id;`id`$(id)'
  hostApi.config = () => ({ ...configDefaults, fleet: { ...configDefaults.fleet, publicUrl } })
  const { err } = await creating({})
  const command = err.split('\n').find((line) => line.startsWith('switchyard worker')) ?? ''
  const words = execFileSync('sh', ['-c', `switchyard() { printf '%s\\n' "$@"; }; ${command}`], {
    encoding: 'utf8',
  })
  expect(words.split('\n').slice(0, 3)).toEqual(['worker', '--host', publicUrl])
})

test('join-keys create sends no limit that nobody named, and -o id prints the id', async () => {
  const { creating, hostApi } = await openHost()
  expect((await creating({ output: 'id' })).out).toBe('jk-test\n')
  expect(hostApi.storedJoinKeys[0]).toEqual({
    id: 'jk-test',
    name: 'spot fleet',
    ephemeral: false,
    createdAt: expect.any(String),
    workers: 2,
  })
  expect(JSON.parse((await creating({ json: true })).out)).toMatchObject({ key: JOIN_KEY })
})

test.each(['yesterday', '2020-01-01', '0s', '9999999d'])(
  'join-keys create --expires %s is wrong usage, and creates nothing',
  async (expires) => {
    const { creating, hostApi } = await openHost()
    await expect(creating({ expires })).rejects.toMatchObject({
      code: 2,
      message: expect.stringContaining('--expires'),
    })
    expect(hostApi.storedJoinKeys).toEqual([])
  },
)

test('join-keys list shows how many workers each key has, and no key', async () => {
  const { print } = await openHost(
    joinKey('jk-1', { workers: 3, maxWorkers: 40, ephemeral: true }),
    joinKey('jk-2', { name: 'lab', expiresAt: '2020-01-01T00:00:00.000Z' }),
  )
  const { out } = await print(list, { columns: 100 })
  expect(out.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
    ['NAME', 'WORKERS', 'EPHEMERAL', 'EXPIRES', 'ID'],
    ['spot fleet', '3/40', 'yes', 'never', 'jk-1'],
    ['lab', '0/any', 'no', 'expired', 'jk-2'],
    [''],
  ])
})

test('join-keys delete says what is lost, needs --yes without a terminal, and takes an id or a name', async () => {
  const { removing, hostApi } = await openHost(
    joinKey('jk-1', { workers: 1 }),
    joinKey('jk-2', { name: 'lab' }),
  )
  await expect(removing('spot fleet')).rejects.toMatchObject({
    code: 2,
    message: expect.stringContaining('keeps its 1 worker'),
    cure: "switchyard workers join-keys delete 'spot fleet' --yes",
  })
  expect((await removing('lab', { yes: true })).out).toMatch(/^lab: /)
  expect(hostApi.storedJoinKeys.map(({ id }) => id)).toEqual(['jk-1'])
  expect(hostApi.workersById.size).toBe(1)
})

test('join-keys delete --workers revokes the workers, too', async () => {
  const { removing, hostApi } = await openHost(joinKey('jk-1', { workers: 2 }))
  await expect(removing('jk-1', { workers: true })).rejects.toMatchObject({
    message: expect.stringContaining('removes its 2 workers for good'),
    cure: 'switchyard workers join-keys delete jk-1 --workers --yes',
  })
  const { out } = await removing('jk-1', { workers: true, yes: true })
  expect(out).toContain('its 2 workers are revoked')
  expect([hostApi.storedJoinKeys, hostApi.workersById.size]).toEqual([[], 0])
})

test('join-keys delete of no key, or of a name that two have, changes nothing', async () => {
  const { removing, hostApi } = await openHost(joinKey('jk-1'), joinKey('jk-2'))
  await expect(removing('lab', { yes: true })).rejects.toMatchObject({ code: 1 })
  await expect(removing('', { yes: true })).rejects.toMatchObject({ code: 2 })
  await expect(removing('spot fleet', { yes: true })).rejects.toMatchObject({
    code: 2,
    message: expect.stringContaining('jk-1, jk-2'),
  })
  expect(hostApi.storedJoinKeys).toHaveLength(2)
})
