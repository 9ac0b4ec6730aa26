/**
 * Lists the packages of others in the worker package as a bill of materials (CycloneDX 1.5, JSON).
 *
 * Versions, licences and hashes are those of package-lock.json. The same packages give the same bytes: the list has
 * neither a time nor a random number.
 */
import { manifest } from './bundle.mjs'

const ALGORITHMS = { sha1: 'SHA-1', sha256: 'SHA-256', sha384: 'SHA-384', sha512: 'SHA-512' }

/** @param sources paths below the root; returns the names of the packages among them, each once and sorted */
export function packagesIn(sources) {
  const names = sources.flatMap(
    (path) => /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? [],
  )
  return [...new Set(names)].sort()
}

/**
 * @param names the packages
 * @param lock what package-lock.json holds
 */
export function formatSbom(names, lock) {
  const root = purlOf('switchyard-worker', manifest.version)
  const sbom = {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: {
      component: {
        type: 'application',
        'bom-ref': root,
        name: 'switchyard-worker',
        version: manifest.version,
        purl: root,
      },
    },
    components: names.map((name) => describe(name, lock)),
  }
  return `${JSON.stringify(sbom, undefined, 2)}\n`
}

function describe(name, lock) {
  const { version, resolved, integrity, license } = lock.packages[`node_modules/${name}`] ?? {}
  if (version === undefined) throw new Error(`package-lock.json does not name ${name}`)
  const [scope, ownName] = name.startsWith('@') ? name.split('/') : [undefined, name]
  const purl = purlOf(name, version)
  return {
    type: 'library',
    'bom-ref': purl,
    ...(scope === undefined ? {} : { group: scope }),
    name: ownName,
    version,
    purl,
    ...(license === undefined ? {} : { licenses: [describeLicense(license)] }),
    ...(integrity === undefined ? {} : { hashes: [describeHash(integrity)] }),
    ...(resolved === undefined ? {} : { externalReferences: [{ type: 'distribution', url: resolved }] }),
  }
}

const purlOf = (name, version) => `pkg:npm/${name.replace(/^@/, '%40')}@${version}`

/** Several licences are an expression. */
const describeLicense = (license) =>
  /[ ()]/.test(license) ? { expression: license } : { license: { id: license } }

function describeHash(integrity) {
  const [algorithm = '', digest = ''] = integrity.split(/-(.*)/)
  return { alg: ALGORITHMS[algorithm], content: Buffer.from(digest, 'base64').toString('hex') }
}
