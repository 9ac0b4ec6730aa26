/** Signs this browser in with the code of the address's fragment, which is good once, and takes it out of the address. */
import { navigate } from './router.ts'

const CODE = /^code=([A-Za-z0-9_-]+)$/

/** Whether the listener accepted the code; undefined when the address has none. */
export async function signIn(): Promise<boolean | undefined> {
  const code = CODE.exec(location.hash.slice(1))?.[1]
  if (code === undefined) return undefined
  navigate(location.pathname + location.search, { replace: true })
  const response = await fetch('/session', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ code }),
  }).catch(() => undefined)
  return response?.ok === true
}
