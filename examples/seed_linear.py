"""The linear layer of the article "Custom Autograd Functions: Forward and Backward".

The second, complete version, its example of use and its gradcheck calls stand here as
they were published; `inputs` tells `backproof check` what to run it on.
"""
# ruff: noqa: D101, E501

import torch
from torch.autograd import gradcheck


# fmt: off
class MyLinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input_tensor, weight, bias=None):
        output = input_tensor.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        # Save input_tensor and weight. Bias is also saved if provided.
        saved_tensors = [input_tensor, weight]
        if bias is not None:
            saved_tensors.append(bias)
        ctx.save_for_backward(*saved_tensors)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        # grad_output is the gradient of the loss w.r.t. the forward output
        # We need to compute gradients w.r.t. forward's inputs:
        # input_tensor, weight, bias

        # Retrieve saved tensors
        saved_tensors = ctx.saved_tensors
        input_tensor = saved_tensors[0]
        weight = saved_tensors[1]
        bias = saved_tensors[2] if len(saved_tensors) > 2 else None

        # Calculate gradients using the chain rule
        # dL/d(input) = dL/d(output) * d(output)/d(input)
        # d(output)/d(input) = weight^T
        grad_input = grad_output.mm(weight)

        # dL/d(weight) = dL/d(output) * d(output)/d(weight)
        # d(output)/d(weight) = input^T
        grad_weight = grad_output.t().mm(input_tensor)

        # dL/d(bias) = dL/d(output) * d(output)/d(bias)
        # d(output)/d(bias) = 1
        grad_bias = None
        if bias is not None:
            # Sum gradients across the batch dimension
            grad_bias = grad_output.sum(0)

        # Return gradients for each input argument of forward, in the same order
        # Return None for inputs that don't require gradients (like ctx)
        # or non-Tensor inputs.
        # The number of return values MUST match the number of forward inputs.
        return grad_input, grad_weight, grad_bias


op = MyLinearFunction.apply


def inputs(seed=0):
    """The article's sizes, with a bias and without."""
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 10, generator=gen, requires_grad=True)
    w = torch.randn(5, 10, generator=gen, requires_grad=True)
    b = torch.randn(5, generator=gen, requires_grad=True)
    yield x, w, b
    yield x, w, None


if __name__ == "__main__":
    input_features = 10
    output_features = 5
    batch_size = 3

    # Create tensors that require gradients
    x = torch.randn(batch_size, input_features, requires_grad=True)
    w = torch.randn(output_features, input_features, requires_grad=True) # Note: shape for mm(weight.t())
    b = torch.randn(output_features, requires_grad=True)

    # Apply the custom function
    # Use MyLinearFunction.apply, NOT MyLinearFunction.forward directly
    y = MyLinearFunction.apply(x, w, b)

    # Example: Calculate a dummy loss and backpropagate
    loss = y.mean()
    loss.backward()

    # Check gradients (optional)
    print("Gradient for x:", x.grad is not None)
    print("Gradient for w:", w.grad is not None)
    print("Gradient for b:", b.grad is not None)

    # Create inputs for gradcheck. Often requires double precision for stability.
    x_check = torch.randn(batch_size, input_features, dtype=torch.double, requires_grad=True)
    w_check = torch.randn(output_features, input_features, dtype=torch.double, requires_grad=True)
    b_check = torch.randn(output_features, dtype=torch.double, requires_grad=True)

    # Define the function to test (using apply)
    test_func = MyLinearFunction.apply

    # Perform the check
    # inputs is a tuple containing the arguments to the function
    inputs = (x_check, w_check, b_check)
    is_correct = gradcheck(test_func, inputs, eps=1e-6, atol=1e-4)
    print("Gradient check passed:", is_correct)

    # Example with bias=None (optional argument handling)
    x_check_no_bias = torch.randn(batch_size, input_features, dtype=torch.double, requires_grad=True)
    w_check_no_bias = torch.randn(output_features, input_features, dtype=torch.double, requires_grad=True)

    # Need a small wrapper if function signature changes based on inputs
    def test_func_no_bias(x, w):
        return MyLinearFunction.apply(x, w, None)

    inputs_no_bias = (x_check_no_bias, w_check_no_bias)
    is_correct_no_bias = gradcheck(test_func_no_bias, inputs_no_bias, eps=1e-6, atol=1e-4)
    print("Gradient check (no bias) passed:", is_correct_no_bias)
