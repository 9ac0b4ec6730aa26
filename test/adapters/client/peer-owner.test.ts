/** Proof of whose program is at the other end of a connection within the machine, before a client sends anything. */
import { chownSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import { createClient } from '../../../client/client.ts'
import type { HostAddress, SocketEnd } from '../../../client/connection.ts'
import { ForeignPeer, HostUnreachable } from '../../../client/errors.ts'
import { findHostOf } from '../../../client/find-host.ts'
import { sendByNode } from '../../../client/node-http.ts'
import { dialByNode } from '../../../client/node-socket.ts'
import { addressPattern, findPeer } from '../../../client/peer-owner.ts'
import { FOREIGN_UID, killedHost, startForeignProgram } from '../../support/foreign-program.ts'
import { testAsRoot } from '../../support/skips.ts'
import { closeAfterTest, TOKEN } from '../../support/test-resources.ts'
import { until } from '../../support/until.ts'

const LATE_MS = 700

const clientOf = (at: HostAddress) => createClient({ address: () => at, send: sendByNode, dial: dialByNode })

function dial(at: HostAddress): Promise<SocketEnd> {
  return new Promise((resolve) => {
    const socket = dialByNode(at, '/ws', {
      onOpen: () => socket.close(),
      onText: () => {},
      onEnd: resolve,
    })
  })
}

async function listen(server: Server, host: string): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  closeAfterTest(() => server.close())
  return (server.address() as AddressInfo).port
}

describe('a program of another user at the port of a killed host', () => {
  testAsRoot('is named, and a request sends it nothing', async () => {
    const program = await startForeignProgram()
    const asked = clientOf(findHostOf(killedHost(program.url, TOKEN))).health()
    await expect(asked).rejects.toBeInstanceOf(ForeignPeer)
    await expect(asked).rejects.toBeInstanceOf(HostUnreachable)
    await expect(asked).rejects.toThrow(`port ${program.port} belongs to user ${FOREIGN_UID}`)
    expect(program.received()).toBe('')
  })

  testAsRoot('gets nothing from a socket either', async () => {
    const program = await startForeignProgram()
    const end = await dial(findHostOf(killedHost(program.url, TOKEN)))
    expect(end.reason).toContain(`belongs to user ${FOREIGN_UID}`)
    expect(program.received()).toBe('')
  })

  testAsRoot('gets nothing when it accepts the connection late', async () => {
    const program = await startForeignProgram({ lateMs: LATE_MS })
    const at = findHostOf(killedHost(program.url, TOKEN))
    await Promise.all([
      expect(clientOf(at).health()).rejects.toBeInstanceOf(ForeignPeer),
      dial(at).then(({ reason }) => expect(reason).toContain('belongs to user')),
    ])
    await until('both connections were accepted', () => program.connections() === 2)
    expect(program.received()).toBe('')
  })

  testAsRoot('is no host without a launch.json either, unless its user is expected', async () => {
    const { url, received } = await startForeignProgram()
    await expect(clientOf({ url, token: TOKEN }).health()).rejects.toBeInstanceOf(ForeignPeer)
    expect(received()).toBe('')
    await clientOf({ url, token: TOKEN, owner: { users: [FOREIGN_UID] } }).health()
    await until('the program told what it received', () => received().includes(TOKEN))
  })
})

testAsRoot('a host that asks itself proves nothing to itself', async () => {
  const { url, received } = await startForeignProgram()
  await clientOf({ url, token: TOKEN, owner: { users: [], isThisProcess: true } }).health()
  await until('the program told what it received', () => received().includes(TOKEN))
})

testAsRoot('the caller’s own program is the host also where the volume decides whose launch.json is', () => {
  const dataDir = killedHost('http://127.0.0.1:4400', TOKEN)
  chownSync(`${dataDir}/launch.json`, FOREIGN_UID, FOREIGN_UID)
  expect(findHostOf(dataDir).owner).toEqual({ users: [FOREIGN_UID, process.getuid?.()] })
})

describe('the host’s own connections are proven', () => {
  test.each(['127.0.0.1', '127.0.0.9', '::1', '::', 'localhost'])('at %s', async (host) => {
    const port = await listen(
      createServer((_, reply) => reply.end('{"ok":true}')),
      host,
    )
    const named = host === '::' ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host
    const answer = await clientOf({ url: `http://${named}:${port}`, token: TOKEN }).health()
    expect(answer).toEqual({ ok: true })
  })
})

describe('the kernel’s row of the other end', () => {
  const [own, peer] = [addressPattern('127.0.0.1', 0xa164), addressPattern('127.0.0.1', 0x1130)]
  const HEADING = '  sl  local_address rem_address   st\n'
  const rowOf = (state: string, uid: number, inode: number) =>
    `   7: 0100007F:1130 0100007F:A164 ${state} 00000000:00000000 00:00000000 00000000 ${uid}        0 ${inode} 1 0 20 4 30 10 -1\n`

  test.each<[string, string, unknown]>([
    ['names its user once the connection was accepted', rowOf('01', 1000, 41), 1000],
    ['proves nothing without an inode, though it says root', rowOf('01', 0, 0), 'unaccepted'],
    ['proves nothing without an inode, whatever it says', rowOf('01', 1000, 0), 'unaccepted'],
    ['is nobody’s once the other end has closed', rowOf('05', 0, 0), 'closed'],
    ['is missing when the connection goes through a redirection', '', 'unlisted'],
    [
      'is not our own row',
      rowOf('01', 1000, 41).replace('1130 0100007F:A164', 'A164 0100007F:1130'),
      'unlisted',
    ],
  ])('%s', (_, table, found) => {
    const tables: Readonly<Record<string, readonly string[]>> = { tcp: [HEADING], tcp6: [HEADING, table] }
    expect(findPeer(['tcp', 'tcp6'], (name) => tables[name] ?? [], own, peer)).toBe(found)
  })

  test('is looked for no further than where it is, and in both tables for an IPv4 address', () => {
    const mapped = rowOf('01', 1001, 42).replaceAll('0100007F', '0000000000000000FFFF00000100007F')
    const read: string[] = []
    const readTable = (ofTcp: readonly string[]) =>
      function* (name: string): Generator<string> {
        for (const rows of name === 'tcp' ? ofTcp : [HEADING, mapped]) {
          read.push(name)
          yield rows
        }
      }
    const names = ['tcp', 'tcp6']
    expect(findPeer(names, readTable([HEADING, rowOf('01', 1000, 41), '']), own, peer)).toBe(1000)
    expect(read).toEqual(['tcp', 'tcp'])
    expect(findPeer(names, readTable([HEADING, rowOf('06', 0, 0)]), own, peer)).toBe(1001)
    expect(findPeer(names, () => [], own, peer)).toBe('unreadable')
  })
})

test('a program that closes the connection at once is a host out of reach', async () => {
  const port = await listen(
    createTcpServer((socket) => socket.end()),
    '127.0.0.1',
  )
  const asked = clientOf({ url: `http://127.0.0.1:${port}`, token: TOKEN }).health()
  await expect(asked).rejects.toBeInstanceOf(HostUnreachable)
})
