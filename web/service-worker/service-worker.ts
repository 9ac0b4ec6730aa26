/**
 * The service worker of the dashboard: keeps the page's own files, so that the page opens while its listener is away
 * and says so. Requests to the host never pass through a cache.
 *
 * Files with a hash in their name never change. Documents come from the listener first, and from the cache when it
 * does not answer.
 */

/** The build puts the files of the first load here. */
declare const SHELL_FILES: readonly string[]

/** The parts of a service worker that are used; the compiler's library of them excludes that of pages. */
interface WaitingEvent extends Event {
  waitUntil(done: Promise<unknown>): void
}
interface AnsweredEvent extends Event {
  readonly request: Request
  respondWith(answer: Promise<Response>): void
}
interface WorkerScope {
  readonly caches: CacheStorage
  readonly location: Location
  skipWaiting(): Promise<void>
  readonly clients: { claim(): Promise<void> }
  addEventListener(type: 'install' | 'activate', listener: (event: WaitingEvent) => void): void
  addEventListener(type: 'fetch', listener: (event: AnsweredEvent) => void): void
}

// The global object of this script is a service worker, which its types cannot say beside those of pages.
const scope = globalThis as unknown as WorkerScope

/** Other files make another cache. */
const CACHE = `switchyard ${SHELL_FILES.join(' ')}`
const PAGE = '/index.html'

scope.addEventListener('install', (event) => {
  event.waitUntil(
    scope.caches
      .open(CACHE)
      .then((cache) => cache.addAll([...SHELL_FILES]))
      .then(() => scope.skipWaiting()),
  )
})

scope.addEventListener('activate', (event) => {
  event.waitUntil(dropOldCaches().then(() => scope.clients.claim()))
})

scope.addEventListener('fetch', (event) => {
  const { request } = event
  const url = new URL(request.url)
  if (request.method !== 'GET' || url.origin !== scope.location.origin) return
  if (url.pathname.startsWith('/assets/')) event.respondWith(fromCacheFirst(request))
  else if (request.mode === 'navigate' && request.destination === 'document')
    event.respondWith(fromListenerFirst(request))
})

async function dropOldCaches(): Promise<void> {
  const names = await scope.caches.keys()
  await Promise.all(names.filter((name) => name !== CACHE).map((name) => scope.caches.delete(name)))
}

async function fromCacheFirst(request: Request): Promise<Response> {
  const cache = await scope.caches.open(CACHE)
  const kept = await cache.match(request)
  if (kept !== undefined) return kept
  const answer = await fetch(request)
  if (answer.ok) await cache.put(request, answer.clone())
  return answer
}

async function fromListenerFirst(request: Request): Promise<Response> {
  try {
    return await fetch(request)
  } catch (error) {
    const kept = await scope.caches.match(PAGE)
    if (kept === undefined) throw error
    return kept
  }
}
