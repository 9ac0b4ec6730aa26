/**
 * Measures the listener of Node against the native one: two hosts of the product get the same requests in turn.
 *
 * The figure says what a machine gives up where the native listener does not load.
 */
import type { Entry } from '../entry.ts'
import { createLoadGenerator } from '../load.ts'
import { buildProduct, startHost } from '../served-host.ts'
import { compareRequests, httpCases, targetFor } from './http.ts'

const TARGET = { of: 'ratio', is: 'at least', bound: 0.3 } as const

export const listeners: Entry = {
  name: 'listeners',
  about: 'requests/s at the listener of Node / at the native listener',
  async measure(effort, resources) {
    await buildProduct(resources)
    const folders = [resources.createFolder('node'), resources.createFolder('native')] as const
    const onNode = await startHost(resources, folders[0], {}, { SWITCHYARD_LISTENER: 'node' })
    const onNative = await startHost(resources, folders[1])
    const load = createLoadGenerator(resources)
    const figures = []
    for (const httpCase of httpCases) {
      const targets = { ours: targetFor(onNode, httpCase), raw: targetFor(onNative, httpCase) }
      figures.push(await compareRequests(`node ${httpCase.name}`, load, targets, effort, TARGET))
    }
    await Promise.all([onNode.child.stop(), onNative.child.stop()])
    for (const folder of folders) resources.removeFolder(folder)
    return figures
  },
}
