/** Finds the host that runs for a data directory, whoever started it. */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasMark } from '../../../client/answer-marks.ts'
import { type Client, createClient } from '../../../client/client.ts'
import { findHostOf } from '../../../client/find-host.ts'
import { sendByNode } from '../../../client/node-http.ts'
import { dialByNode } from '../../../client/node-socket.ts'

export interface RunningHost {
  readonly pid: number
  readonly url: string
  readonly startedAt: string
}

/** The environment may name another host. */
export const clientOf = (dataDir: string): Client =>
  createClient({
    address: async () => findHostOf(dataDir),
    send: sendByNode,
    dial: dialByNode,
    isAnswer: hasMark,
  })

/** Undefined without a host that answers. */
export async function findRunningHost(dataDir: string): Promise<RunningHost | undefined> {
  try {
    await clientOf(dataDir).readTrackerStatus()
    const launch: unknown = JSON.parse(await readFile(join(dataDir, 'launch.json'), 'utf8'))
    const [pid, url, startedAt] = ['pid', 'url', 'startedAt'].map((name) => Reflect.get(Object(launch), name))
    return { pid: Number(pid), url: String(url), startedAt: String(startedAt) }
  } catch {
    return undefined
  }
}
