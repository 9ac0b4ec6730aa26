/**
 * A process that contacts a server by each client of the product. Its environment may turn the checks of certificates
 * off; the environment of a test in Jest is a copy, which Node does not read.
 *
 * certificate-child <https address> <ssh address> <proxy> <folder>: prints for each client its name and its answer
 */
import { writeSync } from 'node:fs'
import { fetchByGit, outgoingConnections } from './outgoing-connections.ts'

const [url = '', sshUrl = '', proxy = '', folder = ''] = process.argv.slice(2)
const clients: Readonly<Record<string, () => Promise<unknown>>> = {
  'the environment turns checks off': async () => (await fetch(url)).status,
  ...outgoingConnections({ url, proxy, folder }),
  'git over ssh': () => fetchByGit(sshUrl, folder),
}
for (const [name, contact] of Object.entries(clients)) {
  const answer = await contact().catch((error) => `failed: ${error?.message ?? error} ${error?.cause ?? ''}`)
  writeSync(1, `${name} => ${JSON.stringify(answer)}\n`)
}
// Proxies keep connections open.
process.exit(0)
