import { request } from './client'
import { ApiError } from './problem'

/** Throws an `ApiError` that points to the name if the resource exists already, because a PUT would replace it. */
export async function refuseIfTaken(path: string, values: object, what: string, pointer: string): Promise<void> {
  try {
    await request('GET', path, { path: values })
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return
    throw error
  }
  const detail = `There is ${what} with this name already. Choose another name, or edit that one.`
  throw new ApiError(409, {
    type: 'about:blank',
    title: 'The name is taken',
    status: 409,
    detail,
    code: 'taken',
    errors: [{ pointer, detail }],
  })
}
